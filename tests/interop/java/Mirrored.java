import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Predicate;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.connect.mirror.Heartbeat;
import org.apache.kafka.connect.mirror.OffsetSync;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** Reads MirrorMaker's topics with Kafka's classes. Arguments: source, target, source topic, group, translated offset. */
public final class Mirrored {
    public static void main(String[] args) throws Exception {
        String source = args[0], target = args[1], topic = args[2], group = args[3];
        Map<String, Object> configs = Map.of("bootstrap.servers", target);
        TopicPartition remote = new TopicPartition("A." + topic, 0);

        Map<TopicPartition, OffsetAndMetadata> translated =
            RemoteClusterUtils.translateOffsets(configs, "A", group, Duration.ofSeconds(30));
        Check.equal(Map.of(remote, new OffsetAndMetadata(Long.parseLong(args[4]), "note")), translated, "translated offsets");
        Check.equal(Set.of("A.checkpoints.internal"), RemoteClusterUtils.checkpointTopics(configs), "topics of checkpoints");
        Check.that(RemoteClusterUtils.heartbeatTopics(configs).contains("A.heartbeats"), "topics of heartbeats");
        Check.that(RemoteClusterUtils.upstreamClusters(configs).contains("A"), "the source is upstream");
        Check.equal(1, RemoteClusterUtils.replicationHops(configs, "A"), "one hop from the source");

        Heartbeat heartbeat = first(target, "heartbeats", Heartbeat::deserializeRecord, any -> true);
        Check.equal("A to B", heartbeat.sourceClusterAlias() + " to " + heartbeat.targetClusterAlias(), "aliases of heartbeats");
        Check.that(Math.abs(System.currentTimeMillis() - heartbeat.timestamp()) < 600_000, "time of heartbeats");
        TopicPartition partition = new TopicPartition(topic, 0);
        OffsetSync sync = first(source, "mm2-offset-syncs.B.internal", OffsetSync::deserializeRecord,
            any -> any.topicPartition().equals(partition));
        Check.equal("0 is 0", sync.upstreamOffset() + " is " + sync.downstreamOffset(), "offsets of offset syncs");
        System.out.println("done");
    }

    private static <T> T first(
            String address, String topic, Function<ConsumerRecord<byte[], byte[]>, T> parse, Predicate<T> accepted) {
        Map<String, Object> configs = Map.of("bootstrap.servers", address, "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(configs, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            long deadline = System.currentTimeMillis() + 30_000;
            while (System.currentTimeMillis() < deadline)
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    T parsed = parse.apply(record);
                    if (accepted.test(parsed)) return parsed;
                }
        }
        throw new AssertionError(topic + " lacks such a record");
    }
}
