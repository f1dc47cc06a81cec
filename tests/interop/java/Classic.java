import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import kafka.api.FetchRequest;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.common.OffsetAndMetadata;
import kafka.common.OffsetMetadataAndError;
import kafka.common.TopicAndPartition;
import kafka.api.ConsumerMetadataRequest;
import kafka.javaapi.ConsumerMetadataResponse;
import kafka.network.BlockingChannel;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.OffsetCommitRequest;
import kafka.javaapi.OffsetFetchRequest;
import kafka.javaapi.OffsetRequest;
import kafka.javaapi.OffsetResponse;
import kafka.javaapi.PartitionMetadata;
import kafka.javaapi.TopicMetadataRequest;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.javaapi.producer.Producer;
import kafka.message.MessageAndOffset;
import kafka.producer.KeyedMessage;
import kafka.producer.Partitioner;
import kafka.producer.ProducerConfig;
import kafka.utils.VerifiableProperties;

/** The clients of 0.8.2: the Scala producer (sync, async, custom partitioner) and the SimpleConsumer. */
public final class Classic {
    static final int COUNT = 300;

    /** Returns the number after the last dot of the key, modulo the number of partitions. */
    public static class LastPart implements Partitioner {
        public LastPart(VerifiableProperties properties) {}

        public int partition(Object key, int partitions) {
            String text = (String) key;
            return Integer.parseInt(text.substring(text.lastIndexOf('.') + 1)) % partitions;
        }
    }

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0], topic = args[1];
        int partitions = Integer.parseInt(args[2]);
        String host = bootstrap.split(":")[0];
        int port = Integer.parseInt(bootstrap.split(":")[1]);
        String group = "classic-of-" + topic;
        SimpleConsumer consumer = new SimpleConsumer(host, port, 10000, 64 * 1024, "classic");
        List<PartitionMetadata> known = metadata(consumer, topic);
        Check.equal(partitions, known.size(), "metadata of a topic");
        int sent = 0;
        for (String type : new String[] {"sync", "async"})
            for (String codec : new String[] {"none", "gzip", "snappy"}) {
                send(bootstrap, topic, type, codec, "1");
                sent += COUNT;
            }
        send(bootstrap, topic, "sync", "none", "0");
        send(bootstrap, topic, "sync", "none", "-1");
        sent += 2 * COUNT;
        HashSet<String> values = new HashSet<>();
        int found = 0;
        long[] next = new long[partitions];
        // messages sent with acks=0 may not have arrived yet
        long deadline = System.currentTimeMillis() + 20_000;
        while (found < sent && System.currentTimeMillis() < deadline)
            for (int p = 0; p < partitions; p++)
                for (String[] message : read(consumer, topic, p, next[p])) {
                    int wanted = Integer.parseInt(message[0].substring(message[0].lastIndexOf('.') + 1)) % partitions;
                    if (wanted != p) throw new AssertionError(message[0] + " is in partition " + p);
                    values.add(message[1]);
                    found++;
                    next[p] = Long.parseLong(message[2]) + 1;
                }
        Check.equal(sent, found, "every message is where the partitioner put it");
        Check.equal(sent, values.size(), "every message is there once");
        offsets(consumer, topic);
        Check.equal(port, coordinatorPort(host, port, group), "find the coordinator");
        commits(consumer, topic, group);
        consumer.close();
        System.out.println("done");
        System.exit(0);
    }

    static int coordinatorPort(String host, int port, String group) {
        BlockingChannel channel = new BlockingChannel(host, port, BlockingChannel.UseDefaultBufferSize(),
            BlockingChannel.UseDefaultBufferSize(), 10_000);
        channel.connect();
        try {
            long deadline = System.currentTimeMillis() + 20_000;
            while (System.currentTimeMillis() < deadline) {
                channel.send(new ConsumerMetadataRequest(group, ConsumerMetadataRequest.CurrentVersion(), 1, "classic"));
                ConsumerMetadataResponse response = ConsumerMetadataResponse.readFrom(channel.receive().buffer());
                if (response.errorCode() == 0) return response.coordinator().port();
            }
            return -1;
        } finally {
            channel.disconnect();
        }
    }

    static List<PartitionMetadata> metadata(SimpleConsumer consumer, String topic) {
        return consumer.send(new TopicMetadataRequest(Collections.singletonList(topic))).topicsMetadata().get(0).partitionsMetadata();
    }

    static void send(String bootstrap, String topic, String type, String codec, String acks) throws Exception {
        Properties p = new Properties();
        p.put("metadata.broker.list", bootstrap);
        p.put("serializer.class", "kafka.serializer.StringEncoder");
        p.put("partitioner.class", LastPart.class.getName());
        p.put("request.required.acks", acks);
        p.put("producer.type", type);
        p.put("compression.codec", codec);
        p.put("queue.buffering.max.ms", "50");
        p.put("batch.num.messages", "70");
        Producer<String, String> producer = new Producer<>(new ProducerConfig(p));
        List<KeyedMessage<String, String>> batch = new ArrayList<>();
        for (int i = 0; i < COUNT; i++) {
            String ip = "192.168.2." + (i % 255);
            String value = System.currentTimeMillis() + ",www.example.com," + ip + "," + type + codec + acks + i;
            batch.add(new KeyedMessage<>(topic, ip, value));
            if (batch.size() == 25 || i == COUNT - 1) {
                producer.send(batch);
                batch = new ArrayList<>();
            }
        }
        producer.close();
        System.out.println("checked: " + type + " producer, " + codec + ", acks=" + acks);
    }

    static List<String[]> read(SimpleConsumer consumer, String topic, int partition, long from) throws Exception {
        List<String[]> found = new ArrayList<>();
        long offset = from;
        while (true) {
            FetchRequest request = new FetchRequestBuilder().clientId("classic").addFetch(topic, partition, offset, 20_000).build();
            FetchResponse response = consumer.fetch(request);
            if (response.hasError()) throw new AssertionError("fetch: error " + response.errorCode(topic, partition));
            int before = found.size();
            for (MessageAndOffset message : response.messageSet(topic, partition)) {
                if (message.offset() < offset) continue;
                found.add(new String[] {text(message.message().key()), text(message.message().payload()), "" + message.offset()});
                offset = message.nextOffset();
            }
            if (found.size() == before) return found;
        }
    }

    static String text(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return new String(bytes);
    }

    static void offsets(SimpleConsumer consumer, String topic) {
        TopicAndPartition tp = new TopicAndPartition(topic, 0);
        long[] earliest = before(consumer, tp, kafka.api.OffsetRequest.EarliestTime());
        long[] latest = before(consumer, tp, kafka.api.OffsetRequest.LatestTime());
        Check.equal(0L, earliest[0], "earliest offset");
        Check.that(latest[0] > 0, "latest offset");
        FetchResponse beyond = consumer.fetch(new FetchRequestBuilder().clientId("c").addFetch(topic, 0, latest[0] + 1000, 1000).build());
        Check.equal((short) 1, beyond.errorCode(topic, 0), "an offset that is not there is out of range");
    }

    static long[] before(SimpleConsumer consumer, TopicAndPartition tp, long time) {
        Map<TopicAndPartition, PartitionOffsetRequestInfo> info = new HashMap<>();
        info.put(tp, new PartitionOffsetRequestInfo(time, 1));
        OffsetResponse response = consumer.getOffsetsBefore(new OffsetRequest(info, kafka.api.OffsetRequest.CurrentVersion(), "classic"));
        if (response.hasError()) throw new AssertionError("offsets: error " + response.errorCode(tp.topic(), tp.partition()));
        return response.offsets(tp.topic(), tp.partition());
    }

    static void commits(SimpleConsumer consumer, String topic, String group) {
        TopicAndPartition tp = new TopicAndPartition(topic, 0);
        for (short version : new short[] {0, 1}) {
            Map<TopicAndPartition, OffsetAndMetadata> offsets = new HashMap<>();
            offsets.put(tp, new OffsetAndMetadata(40 + version, "by version " + version, System.currentTimeMillis()));
            short error = (Short) consumer.commitOffsets(new OffsetCommitRequest(group, offsets, 1, "classic", version)).errorCode(tp);
            Check.equal((short) 0, error, "commit an offset, version " + version);
            OffsetMetadataAndError found = consumer.fetchOffsets(
                new OffsetFetchRequest(group, Collections.singletonList(tp), version, 2, "classic")).offsets().get(tp);
            Check.equal(40L + version, found.offset(), "fetch it, version " + version);
            // version 0 stores offsets in ZooKeeper, without metadata
            Check.equal(version == 0 ? "" : "by version 1", found.metadata(), "its metadata, version " + version);
        }
    }
}
