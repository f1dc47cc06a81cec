import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Members of a group with group.protocol=consumer (KIP-848): they join, share partitions, leave, and rejoin as static members. */
public final class Members {
    static final int RECORDS = 300;
    static String bootstrap;
    static String topic;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        topic = args[1];
        send();
        try (KafkaConsumer<String, String> first = member("dynamic")) {
            first.subscribe(List.of(topic));
            Check.equal(RECORDS, Consumers.read(first, RECORDS).size(), "a lone member reads everything");
            first.commitSync();
            try (KafkaConsumer<String, String> second = member("dynamic")) {
                second.subscribe(List.of(topic));
                share(first, second);
                second.commitSync();
            }
            long deadline = System.currentTimeMillis() + Consumers.PATIENCE_MS;
            while (first.assignment().size() < 3 && System.currentTimeMillis() < deadline) Consumers.poll(first, 100);
            Check.equal(3, first.assignment().size(), "who stays takes over what the other read");
        }
        statics();
        System.out.println("done");
    }

    static void share(KafkaConsumer<String, String> first, KafkaConsumer<String, String> second) {
        long deadline = System.currentTimeMillis() + Consumers.PATIENCE_MS;
        while (System.currentTimeMillis() < deadline) {
            Consumers.poll(first, 100);
            Consumers.poll(second, 100);
            if (!second.assignment().isEmpty() && first.assignment().size() + second.assignment().size() == 3) break;
        }
        Set<TopicPartition> all = new HashSet<>(first.assignment());
        all.addAll(second.assignment());
        Check.equal(3, all.size(), "two members read all partitions");
        Check.that(!second.assignment().isEmpty(), "both of them read");
    }

    static void statics() throws Exception {
        String[] more = {"group.instance.id", "instance", "group.remote.assignor", "range"};
        try (KafkaConsumer<String, String> consumer = member("static", more)) {
            consumer.subscribe(Pattern.compile(topic + ".*"));
            Check.equal(RECORDS, Consumers.read(consumer, RECORDS).size(), "a static member reads by a pattern");
            consumer.commitSync();
        }
        send();
        try (KafkaConsumer<String, String> consumer = member("static", more)) {
            consumer.subscribe(Pattern.compile(topic + ".*"));
            Check.equal(RECORDS, Consumers.read(consumer, RECORDS).size(), "it comes back to where it was");
        }
    }

    static KafkaConsumer<String, String> member(String group, String... more) {
        Properties p = Consumers.properties(bootstrap, topic + "-" + group, more);
        p.put("group.protocol", "consumer");
        return new KafkaConsumer<>(p);
    }

    static void send() {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        p.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(p)) {
            for (int i = 0; i < RECORDS; i++) producer.send(new ProducerRecord<>(topic, i % 3, null, "" + i));
        }
    }
}
