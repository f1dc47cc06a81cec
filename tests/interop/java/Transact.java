import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;

/** Idempotence, transactions, fencing, and consume-transform-produce. Since kafka-clients 0.11. */
public final class Transact {
    public static void main(String[] args) throws Exception {
        String bootstrap = args[0], input = args[1], output = args[2];
        commitAndAbort(bootstrap, input);
        fence(bootstrap, input);
        transform(bootstrap, input, output);
        System.out.println("done");
        System.exit(0);
    }

    static KafkaProducer<String, String> producer(String bootstrap, String id) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("enable.idempotence", "true");
        if (id != null) p.put("transactional.id", id);
        p.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        p.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        return new KafkaProducer<>(p);
    }

    static void send(KafkaProducer<String, String> producer, String topic, String what, int count) {
        for (int i = 0; i < count; i++) producer.send(new ProducerRecord<>(topic, "k" + i, what + "-" + i));
    }

    static List<String> read(String bootstrap, String topic, String level, int count) {
        List<String> values = new ArrayList<>();
        Properties p = Consumers.properties(bootstrap, "reader-" + System.nanoTime(), "isolation.level", level);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(p)) {
            consumer.subscribe(Collections.singletonList(topic));
            for (ConsumerRecord<String, String> record : Consumers.read(consumer, count)) values.add(record.value());
        }
        Collections.sort(values);
        return values;
    }

    static void commitAndAbort(String bootstrap, String topic) throws Exception {
        try (KafkaProducer<String, String> plain = producer(bootstrap, null)) {
            send(plain, topic, "idempotent", 100);
            plain.flush();
        }
        try (KafkaProducer<String, String> producer = producer(bootstrap, "first-" + topic)) {
            producer.initTransactions();
            for (int round = 0; round < 5; round++) {
                producer.beginTransaction();
                send(producer, topic, "committed" + round, 50);
                producer.commitTransaction();
                producer.beginTransaction();
                send(producer, topic, "aborted" + round, 50);
                producer.flush();
                producer.abortTransaction();
            }
        }
        List<String> committed = read(bootstrap, topic, "read_committed", 350);
        Check.equal(350, committed.size(), "read_committed sees what was committed");
        for (String value : committed) if (value.startsWith("aborted")) throw new AssertionError(value);
        Check.equal(600, read(bootstrap, topic, "read_uncommitted", 600).size(), "read_uncommitted sees all");
    }

    static void fence(String bootstrap, String topic) throws Exception {
        KafkaProducer<String, String> zombie = producer(bootstrap, "fenced-" + topic);
        zombie.initTransactions();
        zombie.beginTransaction();
        send(zombie, topic, "aborted-zombie", 10);
        zombie.flush();
        try (KafkaProducer<String, String> heir = producer(bootstrap, "fenced-" + topic)) {
            heir.initTransactions();
            Class<?> failure = Check.failure(() -> {
                zombie.send(new ProducerRecord<>(topic, "late", "aborted-late")).get();
                zombie.commitTransaction();
                return null;
            });
            Check.that(failure != null, "a zombie cannot commit");
            Class<?> end = Check.failure(() -> { zombie.commitTransaction(); return null; });
            Check.that(ProducerFencedException.class == end || org.apache.kafka.common.KafkaException.class.isAssignableFrom(end),
                "a zombie gets a fencing error");
            heir.beginTransaction();
            send(heir, topic, "committed-heir", 10);
            heir.commitTransaction();
        }
        zombie.close();
        Check.equal(360, read(bootstrap, topic, "read_committed", 360).size(), "nothing of the zombie is read");
    }

    static void transform(String bootstrap, String input, String output) throws Exception {
        String group = "transform-" + input;
        for (boolean abort : new boolean[] {true, false}) {
            Properties p = Consumers.properties(bootstrap, group, "isolation.level", "read_committed");
            try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(p);
                KafkaProducer<String, String> producer = producer(bootstrap, "transform-" + input)) {
                producer.initTransactions();
                consumer.subscribe(Collections.singletonList(input));
                int done = 0;
                long deadline = System.currentTimeMillis() + Consumers.PATIENCE_MS;
                while (done < 360 && System.currentTimeMillis() < deadline) {
                    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                    producer.beginTransaction();
                    int before = done;
                    for (ConsumerRecord<String, String> record : Consumers.poll(consumer, 200)) {
                        producer.send(new ProducerRecord<>(output, record.key(), "out-" + record.value()));
                        offsets.put(new TopicPartition(record.topic(), record.partition()),
                            new OffsetAndMetadata(record.offset() + 1));
                        done++;
                    }
                    if (done > before) sendOffsets(producer, offsets, consumer, group);
                    if (abort) producer.abortTransaction(); else producer.commitTransaction();
                }
                Check.equal(360, done, abort ? "an aborted transform leaves its offsets" : "a transform after an aborted one reads all");
            }
        }
        Check.equal(360, read(bootstrap, output, "read_committed", 360).size(), "a transform's output is there once");
    }

    static void sendOffsets(KafkaProducer<String, String> producer, Map<TopicPartition, OffsetAndMetadata> offsets,
            KafkaConsumer<String, String> consumer, String group) throws Exception {
        for (Method method : KafkaProducer.class.getMethods()) {
            if (!method.getName().equals("sendOffsetsToTransaction")) continue;
            if (method.getParameterTypes()[1] == String.class) continue;
            method.invoke(producer, offsets, KafkaConsumer.class.getMethod("groupMetadata").invoke(consumer));
            return;
        }
        KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, String.class).invoke(producer, offsets, group);
    }
}
