import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.ListConsumerGroupsOptions;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** Kafka's own AdminClient as the judge of the tables of a cluster: {@code servers}. One object of tables. */
public final class TablesJudge {
    private final Admin admin;
    private final Map<String, TopicDescription> topics;
    private final Collection<Node> nodes;
    private final Map<Integer, Map<String, LogDirDescription>> directories;

    private TablesJudge(Admin admin) throws Exception {
        this.admin = admin;
        nodes = admin.describeCluster().nodes().get();
        var all = new ListTopicsOptions().listInternal(true);
        topics = admin.describeTopics(admin.listTopics(all).names().get()).allTopicNames().get();
        directories = admin.describeLogDirs(nodes.stream().map(Node::id).toList()).allDescriptions().get();
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        try (Admin admin = Admin.create(properties)) {
            TablesJudge judge = new TablesJudge(admin);
            Map<String, Object> tables = new LinkedHashMap<>();
            tables.put("brokers", judge.brokers());
            tables.put("topics", judge.topics());
            tables.put("partitions", judge.partitions());
            tables.put("groups", judge.groups(false));
            tables.put("group_members", judge.groups(true));
            tables.put("group_offsets", judge.offsets());
            tables.put("configs", judge.configs());
            tables.put("transactions", judge.transactions());
            tables.put("producers", judge.producers());
            System.out.println(new ObjectMapper().writeValueAsString(tables));
        }
    }

    private static Map<String, Object> row(Object... fields) {
        Map<String, Object> row = new LinkedHashMap<>();
        for (int at = 0; at < fields.length; at += 2) {
            row.put((String) fields[at], fields[at + 1]);
        }
        return row;
    }

    private static List<Object> partitions(Collection<TopicPartition> partitions) {
        return partitions.stream()
            .sorted((a, b) -> (a.topic() + a.partition()).compareTo(b.topic() + b.partition()))
            .map(each -> (Object) row("topic", each.topic(), "partition", each.partition())).toList();
    }

    private List<Object> brokers() {
        List<Object> rows = new ArrayList<>();
        for (Node node : nodes) {
            long bytes = 0;
            Long total = 0L;
            for (LogDirDescription directory : directories.get(node.id()).values()) {
                total += directory.totalBytes().getAsLong();
                for (var replica : directory.replicaInfos().values()) {
                    bytes += replica.size();
                }
            }
            rows.add(row("broker", node.id(), "host", node.host(), "port", node.port(), "rack", node.rack(),
                "bytes", bytes, "totalBytes", total));
        }
        return rows;
    }

    private List<Object> topics() {
        List<Object> rows = new ArrayList<>();
        for (TopicDescription topic : topics.values()) {
            rows.add(row("topic", topic.name(), "topicId", topic.topicId().toString(),
                "isInternal", topic.isInternal(), "partitions", topic.partitions().size(),
                "replicationFactor", topic.partitions().get(0).replicas().size()));
        }
        return rows;
    }

    private Map<TopicPartition, Long> ends(OffsetSpec spec, IsolationLevel level) throws Exception {
        Map<TopicPartition, OffsetSpec> asked = new LinkedHashMap<>();
        for (TopicDescription topic : topics.values()) {
            topic.partitions().forEach(each -> asked.put(new TopicPartition(topic.name(), each.partition()), spec));
        }
        var found = admin.listOffsets(asked, new ListOffsetsOptions(level)).all().get();
        return found.entrySet().stream().collect(Collectors.toMap(Map.Entry::getKey, e -> e.getValue().offset()));
    }

    private List<Object> partitions() throws Exception {
        var earliest = ends(OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED);
        var latest = ends(OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED);
        var stable = ends(OffsetSpec.latest(), IsolationLevel.READ_COMMITTED);
        List<Object> rows = new ArrayList<>();
        for (TopicDescription topic : topics.values()) {
            for (var each : topic.partitions()) {
                TopicPartition partition = new TopicPartition(topic.name(), each.partition());
                long bytes = 0;
                for (LogDirDescription directory : directories.get(each.leader().id()).values()) {
                    var replica = directory.replicaInfos().get(partition);
                    bytes += replica == null ? 0 : replica.size();
                }
                rows.add(row("topic", topic.name(), "partition", each.partition(), "leader", each.leader().id(),
                    "replicas", each.replicas().stream().map(Node::id).toList(),
                    "isr", each.isr().stream().map(Node::id).toList(),
                    "earliest", earliest.get(partition), "latest", latest.get(partition),
                    "lastStable", stable.get(partition), "bytes", bytes));
            }
        }
        return rows;
    }

    private List<Object> groups(boolean members) throws Exception {
        var listed = admin.listConsumerGroups(new ListConsumerGroupsOptions()).all().get();
        var names = listed.stream().map(ConsumerGroupListing::groupId).toList();
        List<Object> rows = new ArrayList<>();
        for (ConsumerGroupDescription group : admin.describeConsumerGroups(names).all().get().values()) {
            if (!members) {
                rows.add(row("groupId", group.groupId(), "type", group.type().toString().toLowerCase(),
                    "state", group.state().toString(), "coordinator", group.coordinator().id(),
                    "members", group.members().size()));
            }
            for (MemberDescription member : members ? group.members() : List.<MemberDescription>of()) {
                rows.add(row("groupId", group.groupId(), "memberId", member.consumerId(),
                    "instanceId", member.groupInstanceId().orElse(null), "clientId", member.clientId(),
                    "host", member.host(), "assignment", partitions(member.assignment().topicPartitions())));
            }
        }
        return rows;
    }

    private List<Object> offsets() throws Exception {
        var latest = ends(OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED);
        List<Object> rows = new ArrayList<>();
        for (ConsumerGroupListing group : admin.listConsumerGroups().all().get()) {
            var committed = admin.listConsumerGroupOffsets(group.groupId()).partitionsToOffsetAndMetadata().get();
            for (Map.Entry<TopicPartition, OffsetAndMetadata> each : committed.entrySet()) {
                TopicPartition partition = each.getKey();
                long offset = each.getValue().offset();
                rows.add(row("groupId", group.groupId(), "topic", partition.topic(),
                    "partition", partition.partition(), "offset", offset, "metadata", each.getValue().metadata(),
                    "latest", latest.get(partition), "lag", latest.get(partition) - offset));
            }
        }
        return rows;
    }

    private List<Object> configs() throws Exception {
        List<ConfigResource> resources = new ArrayList<>();
        topics.keySet().forEach(each -> resources.add(new ConfigResource(ConfigResource.Type.TOPIC, each)));
        nodes.forEach(each -> resources.add(new ConfigResource(ConfigResource.Type.BROKER, each.idString())));
        List<Object> rows = new ArrayList<>();
        for (Map.Entry<ConfigResource, Config> each : admin.describeConfigs(resources).all().get().entrySet()) {
            for (ConfigEntry entry : each.getValue().entries()) {
                rows.add(row("resourceType", each.getKey().type().toString().toLowerCase(),
                    "resource", each.getKey().name(), "name", entry.name(), "value", entry.value(),
                    "isSensitive", entry.isSensitive(), "isReadOnly", entry.isReadOnly(),
                    "source", entry.source().toString()));
            }
        }
        return rows;
    }

    private List<Object> transactions() throws Exception {
        List<Object> rows = new ArrayList<>();
        var listed = admin.listTransactions().all().get();
        var names = listed.stream().map(TransactionListing::transactionalId).toList();
        var described = admin.describeTransactions(names).all().get();
        for (TransactionListing each : listed) {
            TransactionDescription state = described.get(each.transactionalId());
            Long start = state.transactionStartTimeMs().isPresent() ? state.transactionStartTimeMs().getAsLong() : null;
            rows.add(row("transactionalId", each.transactionalId(), "state", state.state().toString(),
                "coordinator", state.coordinatorId(), "producerId", state.producerId(),
                "producerEpoch", state.producerEpoch(), "timeoutMs", state.transactionTimeoutMs(),
                "startTime", start, "partitions", partitions(state.topicPartitions())));
        }
        return rows;
    }

    private List<Object> producers() throws Exception {
        List<TopicPartition> asked = new ArrayList<>();
        for (TopicDescription topic : topics.values()) {
            topic.partitions().forEach(each -> asked.add(new TopicPartition(topic.name(), each.partition())));
        }
        List<Object> rows = new ArrayList<>();
        for (var each : admin.describeProducers(asked).all().get().entrySet()) {
            for (ProducerState state : each.getValue().activeProducers()) {
                var start = state.currentTransactionStartOffset();
                rows.add(row("topic", each.getKey().topic(), "partition", each.getKey().partition(),
                    "producerId", state.producerId(), "producerEpoch", state.producerEpoch(),
                    "lastSequence", state.lastSequence() < 0 ? null : state.lastSequence(),
                    "lastTimestamp", state.lastTimestamp() < 0 ? null : state.lastTimestamp(),
                    "txnStartOffset", start.isPresent() ? start.getAsLong() : null));
            }
        }
        return rows;
    }
}
