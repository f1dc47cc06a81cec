import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;

/** Newer methods: topics by id, producers, transactions, client metrics, the newest offset. Since 3.9. */
public final class Newest {
    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        String topic = args[1];
        try (Admin admin = Admin.create(p)) {
            admin.createTopics(Arrays.asList(new NewTopic(topic, Optional.of(2), Optional.empty()))).all().get();
            TopicDescription byName = admin.describeTopics(Collections.singletonList(topic)).allTopicNames().get().get(topic);
            Uuid id = byName.topicId();
            Check.equal(topic, admin.describeTopics(TopicCollection.ofTopicIds(Collections.singletonList(id)))
                .allTopicIds().get().get(id).name(), "describe a topic by its id");
            transactions(admin, args[0], topic);
            metrics(admin);
            admin.deleteTopics(TopicCollection.ofTopicIds(Collections.singletonList(id))).all().get();
            Check.that(!admin.listTopics().names().get().contains(topic), "delete a topic by its id");
        }
        System.out.println("done");
        System.exit(0);
    }

    static void transactions(Admin admin, String bootstrap, String topic) throws Exception {
        TopicPartition tp = new TopicPartition(topic, 0);
        String transactionalId = "watched-" + topic;
        try (KafkaProducer<String, String> producer = Transact.producer(bootstrap, transactionalId)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, 1_700_000_000_500L, "k", "late")).get();
            producer.send(new ProducerRecord<>(topic, 0, 1_700_000_000_100L, "k", "early")).get();
            Check.equal("ONGOING", admin.describeTransactions(Collections.singletonList(transactionalId)).description(transactionalId)
                .get().state().name(), "describe an open transaction");
            Check.equal(Collections.singleton(tp), admin.describeTransactions(Collections.singletonList(transactionalId))
                .description(transactionalId).get().topicPartitions(), "its partitions");
            Check.that(admin.listTransactions().all().get().stream().anyMatch(t -> t.transactionalId().equals(transactionalId)), "list transactions");
            Check.that(admin.describeProducers(Collections.singletonList(tp)).partitionResult(tp).get().activeProducers().stream()
                .anyMatch(state -> state.currentTransactionStartOffset().isPresent()), "describe the producers of a partition");
            Check.equal(0L, admin.listOffsets(Collections.singletonMap(tp, OffsetSpec.maxTimestamp())).all().get().get(tp).offset(),
                "the offset with the largest time");
            producer.commitTransaction();
        }
    }

    static void metrics(Admin admin) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "watch");
        Collection<AlterConfigOp> ops = Arrays.asList(
            new AlterConfigOp(new ConfigEntry("metrics", "org.apache.kafka.producer."), AlterConfigOp.OpType.SET),
            new AlterConfigOp(new ConfigEntry("interval.ms", "5000"), AlterConfigOp.OpType.SET));
        admin.incrementalAlterConfigs(Collections.singletonMap(resource, ops)).all().get();
        Check.equal("5000", admin.describeConfigs(Collections.singletonList(resource)).all().get().get(resource)
            .get("interval.ms").value(), "subscribe to client metrics");
        Check.that(admin.listClientMetricsResources().all().get().stream().anyMatch(r -> r.name().equals("watch")), "list the subscriptions");
    }
}
