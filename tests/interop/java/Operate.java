import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.DelegationTokenDisabledException;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.UnsupportedByAuthenticationException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;

/** Operators' methods of the Admin client: configs, groups, offsets, quotas, SCRAM, log directories. Since 2.8. */
public final class Operate {
    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        String topic = args[1];
        try (Admin admin = Admin.create(p)) {
            admin.createTopics(Arrays.asList(new NewTopic(topic, Optional.of(2), Optional.empty()))).all().get();
            options(admin, topic);
            admin.createPartitions(Collections.singletonMap(topic, NewPartitions.increaseTo(3))).all().get();
            fill(args[0], topic);
            offsets(admin, topic);
            groups(admin, args[0], topic);
            placement(admin, topic);
            quotas(admin, topic);
            credentials(admin, topic);
            Check.that(Check.failure(() -> admin.createDelegationToken().delegationToken().get()) != null,
                "no delegation token without authentication");
            Check.that(admin.describeFeatures().featureMetadata().get() != null, "describe features");
            admin.deleteTopics(Collections.singletonList(topic)).all().get();
        }
        System.out.println("done");
        System.exit(0);
    }

    static void fill(String bootstrap, String topic) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        p.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(p)) {
            for (int i = 0; i < 90; i++)
                producer.send(new ProducerRecord<>(topic, i % 3, 1_700_000_000_000L + i, "k" + i, "v" + i));
        }
    }

    static void options(Admin admin, String topic) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Collection<AlterConfigOp> changes = Arrays.asList(
            new AlterConfigOp(new ConfigEntry("retention.ms", "-1"), AlterConfigOp.OpType.SET),
            new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.APPEND));
        admin.incrementalAlterConfigs(Collections.singletonMap(resource, changes)).all().get();
        Map<String, String> found = new HashMap<>();
        for (ConfigEntry entry : admin.describeConfigs(Collections.singletonList(resource)).all().get().get(resource).entries())
            found.put(entry.name(), entry.value());
        Check.equal("-1", found.get("retention.ms"), "set a topic's option");
        Check.equal(new HashSet<>(Arrays.asList("compact", "delete")),
            new HashSet<>(Arrays.asList(found.get("cleanup.policy").split(","))), "append to a list");
        ConfigResource brokers = new ConfigResource(ConfigResource.Type.BROKER, "");
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry("log.cleaner.backoff.ms", "14000"), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Collections.singletonMap(brokers, Collections.singletonList(change))).all().get();
        Check.equal("14000", admin.describeConfigs(Collections.singletonList(brokers)).all().get().get(brokers)
            .get("log.cleaner.backoff.ms").value(), "set an option of all brokers");
    }

    static void offsets(Admin admin, String topic) throws Exception {
        TopicPartition tp = new TopicPartition(topic, 0);
        Check.equal(0L, admin.listOffsets(Collections.singletonMap(tp, OffsetSpec.earliest())).all().get().get(tp).offset(), "earliest offset");
        Check.equal(30L, admin.listOffsets(Collections.singletonMap(tp, OffsetSpec.latest())).all().get().get(tp).offset(), "latest offset");
        Check.equal(10L, admin.listOffsets(Collections.singletonMap(tp, OffsetSpec.forTimestamp(1_700_000_000_030L)))
            .all().get().get(tp).offset(), "offset for a time");
        Check.equal(5L, admin.deleteRecords(Collections.singletonMap(tp, RecordsToDelete.beforeOffset(5))).all() == null ? -1L
            : admin.deleteRecords(Collections.singletonMap(tp, RecordsToDelete.beforeOffset(5))).lowWatermarks().get(tp).get().lowWatermark(),
            "delete records");
        Check.equal(5L, admin.listOffsets(Collections.singletonMap(tp, OffsetSpec.earliest())).all().get().get(tp).offset(), "earliest offset after that");
    }

    static void groups(Admin admin, String bootstrap, String topic) throws Exception {
        String group = "operated-" + topic;
        TopicPartition tp = new TopicPartition(topic, 1);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(Consumers.properties(bootstrap, group))) {
            consumer.subscribe(Collections.singletonList(topic));
            Consumers.read(consumer, 85);
            consumer.commitSync();
            ConsumerGroupDescription found = admin.describeConsumerGroups(Collections.singletonList(group)).all().get().get(group);
            Check.equal("Stable", found.state().toString(), "describe a group");
            Check.equal(3, found.members().iterator().next().assignment().topicPartitions().size(), "its member has all partitions");
            Check.that(admin.listConsumerGroups().all().get().stream().anyMatch(g -> g.groupId().equals(group)), "list groups");
            Check.that(Check.failure(() -> admin.deleteConsumerGroups(Collections.singletonList(group)).all().get()) != null,
                "a group in use is not deleted");
        }
        Check.equal(30L, admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(tp).offset(), "a group's offsets");
        admin.alterConsumerGroupOffsets(group, Collections.singletonMap(tp, new OffsetAndMetadata(7))).all().get();
        Check.equal(7L, admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(tp).offset(), "reset them");
        admin.deleteConsumerGroupOffsets(group, Collections.singleton(tp)).all().get();
        Check.that(!admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().containsKey(tp), "delete one");
        admin.deleteConsumerGroups(Collections.singletonList(group)).all().get();
        Check.that(admin.listConsumerGroups().all().get().stream().noneMatch(g -> g.groupId().equals(group)), "delete a group");
    }

    static void placement(Admin admin, String topic) throws Exception {
        int node = admin.describeCluster().controller().get().id();
        TopicPartition tp = new TopicPartition(topic, 0);
        Map<String, LogDirDescription> dirs = admin.describeLogDirs(Collections.singletonList(node)).allDescriptions().get().get(node);
        Check.that(dirs.values().iterator().next().replicaInfos().get(tp).size() > 0, "describe log directories");
        TopicPartitionReplica replica = new TopicPartitionReplica(topic, 0, node);
        String here = dirs.keySet().iterator().next();
        admin.alterReplicaLogDirs(Collections.singletonMap(replica, here)).all().get();
        Check.equal(here, admin.describeReplicaLogDirs(Collections.singletonList(replica)).all().get().get(replica)
            .getCurrentReplicaLogDir(), "move a replica to where it is");
        Check.equal(ElectionNotNeededException.class, admin.electLeaders(ElectionType.PREFERRED, Collections.singleton(tp))
            .partitions().get().get(tp).get().getClass(), "no election is needed");
        admin.alterPartitionReassignments(Collections.singletonMap(tp,
            Optional.of(new NewPartitionReassignment(Collections.singletonList(node))))).all().get();
        Check.equal(0, admin.listPartitionReassignments().reassignments().get().size(), "no partition is on its way");
    }

    static void quotas(Admin admin, String name) throws Exception {
        ClientQuotaEntity entity = new ClientQuotaEntity(Collections.singletonMap(ClientQuotaEntity.CLIENT_ID, name));
        ClientQuotaAlteration.Op op = new ClientQuotaAlteration.Op("producer_byte_rate", 1e9);
        admin.alterClientQuotas(Collections.singletonList(new ClientQuotaAlteration(entity, Collections.singletonList(op)))).all().get();
        Check.equal(Collections.singletonMap("producer_byte_rate", 1e9),
            admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().get(entity), "set and describe quotas");
        op = new ClientQuotaAlteration.Op("producer_byte_rate", null);
        admin.alterClientQuotas(Collections.singletonList(new ClientQuotaAlteration(entity, Collections.singletonList(op)))).all().get();
        Check.that(!admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().containsKey(entity), "remove quotas");
    }

    static void credentials(Admin admin, String user) throws Exception {
        ScramCredentialInfo info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096);
        admin.alterUserScramCredentials(Collections.singletonList(new UserScramCredentialUpsertion(user, info, "secret"))).all().get();
        Check.equal(4096, admin.describeUserScramCredentials(Collections.singletonList(user)).description(user).get()
            .credentialInfos().get(0).iterations(), "set and describe SCRAM credentials");
        admin.alterUserScramCredentials(Collections.singletonList(
            new UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256))).all().get();
        Check.that(Check.failure(() -> admin.describeUserScramCredentials(Collections.singletonList(user)).description(user).get()) != null,
            "remove SCRAM credentials");
    }
}
