import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/** Differences between the consumers of 0.10 and 4: poll takes milliseconds, later a Duration. */
final class Consumers {
    static final long PATIENCE_MS = 60_000;

    private Consumers() {}

    static Properties properties(String bootstrap, String group, String... more) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("group.id", group);
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "earliest");
        p.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        p.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        for (int i = 0; i < more.length; i += 2) p.put(more[i], more[i + 1]);
        return p;
    }

    @SuppressWarnings("unchecked")
    static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer, long ms) {
        try {
            Method poll;
            try {
                poll = KafkaConsumer.class.getMethod("poll", Duration.class);
            } catch (NoSuchMethodException old) {
                return (ConsumerRecords<String, String>) KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, ms);
            }
            return (ConsumerRecords<String, String>) poll.invoke(consumer, Duration.ofMillis(ms));
        } catch (java.lang.reflect.InvocationTargetException error) {
            if (error.getCause() instanceof RuntimeException) throw (RuntimeException) error.getCause();
            throw new IllegalStateException(error.getCause());
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Polls until there are `count` records, and for a moment after that. */
    static List<ConsumerRecord<String, String>> read(KafkaConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (found.size() < count && System.currentTimeMillis() < deadline)
            for (ConsumerRecord<String, String> record : poll(consumer, 200)) found.add(record);
        for (ConsumerRecord<String, String> record : poll(consumer, 300)) found.add(record);
        return found;
    }
}
