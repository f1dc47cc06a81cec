import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

/** Produces with each codec, consumes in a group, commits, resumes, seeks. Since kafka-clients 0.10.0. */
public final class Exchange {
    static final int PER_CODEC = 400;

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0], topic = args[1];
        List<String> codecs = Arrays.asList(args[2].split(","));
        int sent = 0;
        for (String codec : codecs) sent += produce(bootstrap, topic, codec, "all");
        for (String acks : new String[] {"1", "0"}) sent += produce(bootstrap, topic, codecs.get(0), acks);
        consume(bootstrap, topic, sent);
        System.out.println("done");
        System.exit(0);
    }

    static int produce(String bootstrap, String topic, String codec, String acks) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("acks", acks);
        p.put("compression.type", codec);
        p.put("linger.ms", "5");
        p.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        p.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        final AtomicInteger calls = new AtomicInteger();
        List<Future<RecordMetadata>> futures = new ArrayList<>();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(p)) {
            for (int i = 0; i < PER_CODEC; i++) {
                String value = codec + "-" + acks + "-" + i + "-" + String.join("", Collections.nCopies(i % 60, "x"));
                futures.add(producer.send(new ProducerRecord<>(topic, "key-" + i % 20, value), new Callback() {
                    public void onCompletion(RecordMetadata metadata, Exception error) {
                        if (error == null) calls.incrementAndGet();
                    }
                }));
            }
            producer.flush();
        }
        Map<Integer, Long> last = new HashMap<>();
        for (Future<RecordMetadata> future : futures) {
            RecordMetadata metadata = future.get();
            if (acks.equals("0")) continue;
            Long before = last.put(metadata.partition(), metadata.offset());
            if (before != null && metadata.offset() <= before) throw new AssertionError("offsets do not grow");
        }
        Check.equal(PER_CODEC, calls.get(), "produce " + codec + " with acks=" + acks);
        return PER_CODEC;
    }

    static void consume(String bootstrap, String topic, int sent) {
        String group = "group-of-" + topic;
        Map<TopicPartition, OffsetAndMetadata> commits = new HashMap<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(Consumers.properties(bootstrap, group))) {
            consumer.subscribe(Collections.singletonList(topic));
            List<ConsumerRecord<String, String>> found = Consumers.read(consumer, sent);
            HashSet<String> values = new HashSet<>();
            for (ConsumerRecord<String, String> record : found) values.add(record.value());
            Check.equal(sent, found.size(), "consume every record of every codec");
            Check.equal(sent, values.size(), "consume every record once");
            for (ConsumerRecord<String, String> record : found) {
                if (record.timestamp() <= 0) throw new AssertionError("no timestamp");
                TopicPartition tp = new TopicPartition(topic, record.partition());
                commits.put(tp, new OffsetAndMetadata(record.offset() + 1, "noted"));
            }
            consumer.commitSync(commits);
            TopicPartition tp = commits.keySet().iterator().next();
            Check.equal(commits.get(tp).offset(), consumer.position(tp), "position after the last record");
        }
        try (KafkaConsumer<String, String> next = new KafkaConsumer<>(Consumers.properties(bootstrap, group))) {
            TopicPartition tp = commits.keySet().iterator().next();
            next.assign(Collections.singletonList(tp));
            Check.equal(commits.get(tp).offset(), next.position(tp), "go on where the group committed");
            long middle = commits.get(tp).offset() / 2;
            next.seek(tp, middle);
            List<ConsumerRecord<String, String>> again = Consumers.read(next, (int) (commits.get(tp).offset() - middle));
            Check.equal(middle, again.get(0).offset(), "seek");
            Check.equal(commits.get(tp).offset() - middle, (long) again.size(), "read the rest after seek");
        }
    }
}
