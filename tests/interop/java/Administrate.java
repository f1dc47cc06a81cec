import java.util.Arrays;
import java.util.Collections;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.SecurityDisabledException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** Methods of the first AdminClient, since kafka-clients 0.11, without `all()` of topics, which was renamed in 4. */
public final class Administrate {
    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        String topic = args[1];
        try (AdminClient admin = AdminClient.create(p)) {
            DescribeClusterResult cluster = admin.describeCluster();
            Check.equal(1, cluster.nodes().get().size(), "describe the cluster");
            Check.that(cluster.clusterId().get().length() >= 16, "the cluster has an id");
            Check.equal(cluster.nodes().get().iterator().next().id(), cluster.controller().get().id(), "the node is the controller");
            NewTopic wish = new NewTopic(topic, 3, (short) 1).configs(Collections.singletonMap("retention.ms", "123456"));
            admin.createTopics(Collections.singletonList(wish)).all().get();
            Check.that(admin.listTopics().names().get().contains(topic), "create and list a topic");
            Check.equal(TopicExistsException.class,
                Check.failure(() -> admin.createTopics(Collections.singletonList(wish)).all().get()), "a topic exists once");
            Check.equal(InvalidConfigurationException.class, Check.failure(() -> admin.createTopics(Collections.singletonList(
                new NewTopic(topic + "-x", 1, (short) 1).configs(Collections.singletonMap("retention.ms", "soon")))).all().get()),
                "a wrong option is refused");
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            Check.equal("123456", option(admin, resource, "retention.ms"), "describe a topic's options");
            ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER,
                "" + cluster.nodes().get().iterator().next().id());
            Check.that(option(admin, broker, "log.segment.bytes") != null, "describe a broker's options");
            Check.equal(SecurityDisabledException.class,
                Check.failure(() -> admin.describeAcls(AclBindingFilter.ANY).values().get()), "ACLs need an authorizer");
            admin.deleteTopics(Collections.singletonList(topic)).all().get();
            Check.that(!admin.listTopics().names().get().contains(topic), "delete a topic");
            Check.equal(UnknownTopicOrPartitionException.class,
                Check.failure(() -> admin.deleteTopics(Collections.singletonList(topic)).all().get()), "a topic is deleted once");
        }
        System.out.println("done");
        System.exit(0);
    }

    static String option(AdminClient admin, ConfigResource resource, String name) throws Exception {
        Config config = admin.describeConfigs(Collections.singletonList(resource)).all().get().get(resource);
        for (ConfigEntry entry : config.entries()) if (entry.name().equals(name)) return entry.value();
        return null;
    }
}
