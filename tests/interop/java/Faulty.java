import java.time.Duration;
import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TopicAuthorizationException;

/** Shows the effect of the faults that a test has defined for its client ids. */
public final class Faulty {
    public static void main(String[] args) throws Exception {
        String bootstrap = args[0], topic = args[1];
        try (KafkaProducer<String, String> producer = producer(bootstrap, "lost", null)) {
            Check.equal(0L, offset(producer, topic), "a lost response is not a lost record");
            Check.equal(1L, offset(producer, topic), "a lost response is no second record");
        }
        try (KafkaProducer<String, String> producer = producer(bootstrap, "denied", null)) {
            Class<?> failure = Check.failure(() -> offset(producer, topic));
            Check.equal(TopicAuthorizationException.class, failure, "an error is that of the fault");
        }
        try (KafkaProducer<String, String> producer = producer(bootstrap, "fenced", topic)) {
            producer.initTransactions();
            producer.beginTransaction();
            offset(producer, topic);
            Class<?> failure = Check.failure(() -> { producer.commitTransaction(); return null; });
            Check.equal(ProducerFencedException.class, failure, "a fenced producer cannot commit");
        }
        for (String protocol : new String[] {"classic", "consumer"}) expire(bootstrap, topic, protocol);
        System.out.println("done");
        System.exit(0);
    }

    static void expire(String bootstrap, String topic, String protocol) {
        Properties p = Consumers.properties(bootstrap, topic + protocol, "enable.auto.commit", "false");
        p.put("client.id", "expired-" + protocol);
        p.put("group.protocol", protocol);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(p)) {
            consumer.subscribe(Collections.singletonList(topic));
            while (consumer.poll(Duration.ofMillis(100)).isEmpty()) {}
            Class<?> failure = Check.failure(() -> { consumer.commitSync(); return null; });
            Check.equal(CommitFailedException.class, failure, "an expired member cannot commit: " + protocol);
        }
    }

    static KafkaProducer<String, String> producer(String bootstrap, String clientId, String transactionalId) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("client.id", clientId);
        if (transactionalId != null) p.put("transactional.id", transactionalId);
        p.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        p.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        return new KafkaProducer<>(p);
    }

    static long offset(KafkaProducer<String, String> producer, String topic) throws Exception {
        return producer.send(new ProducerRecord<>(topic, 0, "k", "v")).get().offset();
    }
}
