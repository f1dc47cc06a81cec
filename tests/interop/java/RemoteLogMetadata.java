import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;

/** Reads a partition's metadata with Kafka's manager. Arguments: bootstrap, topic, id, metadata partitions, log.dir. */
public final class RemoteLogMetadata {
    public static void main(String[] args) throws Exception {
        Map<String, Object> configs = new HashMap<>();
        configs.put("remote.log.metadata.common.client.bootstrap.servers", args[0]);
        configs.put("remote.log.metadata.topic.num.partitions", Integer.parseInt(args[3]));
        configs.put("remote.log.metadata.topic.replication.factor", (short) 1);
        configs.put("broker.id", 7);
        configs.put("log.dir", args[4]);
        TopicIdPartition partition =
            new TopicIdPartition(Uuid.fromString(args[2]), new TopicPartition(args[1], 0));
        TopicBasedRemoteLogMetadataManager manager = new TopicBasedRemoteLogMetadataManager();
        manager.configure(configs);
        int expected = Integer.parseInt(args[5]);
        List<RemoteLogSegmentMetadata> segments = List.of();
        boolean assigned = false;
        for (int i = 0; i < 600 && segments.size() < expected; i++) {
            Thread.sleep(50);
            try {
                if (!assigned) manager.onPartitionLeadershipChanges(Set.of(partition), Set.of());
                assigned = true;
                List<RemoteLogSegmentMetadata> read = new ArrayList<>();
                manager.listRemoteLogSegments(partition).forEachRemaining(read::add);
                segments = read;
            } catch (KafkaException | IllegalStateException error) {
                // not initialized, or not read yet
            } catch (org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException error) {
                // not initialized, or not read yet
            }
        }
        Check.equal(expected, segments.size(), "all segments are listed");
        segments = new ArrayList<>(segments);
        segments.sort(Comparator.comparingLong(RemoteLogSegmentMetadata::startOffset));
        for (RemoteLogSegmentMetadata segment : segments)
            System.out.println("segment " + segment.startOffset() + " " + segment.endOffset() + " " + segment.state());
        long middle = segments.get(1).startOffset() + 1;
        Check.equal(
            segments.get(1), manager.remoteLogSegmentMetadata(partition, 0, middle).get(), "a segment by offset");
        System.out.println("highest " + manager.highestOffsetForEpoch(partition, 0).get());
        System.out.println("done");
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
