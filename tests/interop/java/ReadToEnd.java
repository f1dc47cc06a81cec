import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads every partition of some topics to its end, and prints "topic partition records end" of each. */
public final class ReadToEnd {
    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("enable.auto.commit", "false");
        Map<TopicPartition, Integer> read = new HashMap<>();
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (int i = 1; i < args.length; i++)
                for (PartitionInfo info : consumer.partitionsFor(args[i]))
                    partitions.add(new TopicPartition(info.topic(), info.partition()));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            long deadline = System.currentTimeMillis() + 60_000;
            while (partitions.stream().anyMatch(tp -> consumer.position(tp) < ends.get(tp))) {
                if (System.currentTimeMillis() > deadline)
                    throw new IllegalStateException("the end is not reached");
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200)))
                    read.merge(new TopicPartition(record.topic(), record.partition()), 1, Integer::sum);
            }
            for (TopicPartition tp : partitions)
                System.out.println(tp.topic() + " " + tp.partition() + " " + read.getOrDefault(tp, 0) + " " + ends.get(tp));
        }
        System.exit(0);
    }
}
