import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.admin.ShareMemberDescription;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a share group, and what Kafka's own AdminClient says of the group once it reads: {@code servers
 * topic group}. One line; the member stays until the input ends.
 */
public final class ShareGroupJudge {
    private static final long DEADLINE_MS = 120_000;

    private ShareGroupJudge() {
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("group.id", args[2]);
        properties.put("client.id", "the share client");
        AtomicBoolean isDone = new AtomicBoolean();
        Thread input = new Thread(() -> {
            try {
                System.in.readAllBytes();
            } catch (java.io.IOException error) {
                System.err.println(error);
            }
            isDone.set(true);
        });
        input.setDaemon(true);
        input.start();
        var bytes = new ByteArrayDeserializer();
        try (Admin admin = Admin.create(properties)) {
            try (var consumer = new KafkaShareConsumer<>(properties, bytes, bytes)) {
                consumer.subscribe(List.of(args[1]));
                long end = System.currentTimeMillis() + DEADLINE_MS;
                boolean isTold = false;
                while (!isDone.get()) {
                    consumer.poll(Duration.ofMillis(100));
                    if (!isTold) {
                        isTold = told(admin, args[2]);
                        if (System.currentTimeMillis() > end) {
                            throw new IllegalStateException("no member of " + args[2]);
                        }
                    }
                }
            }
        }
    }

    private static boolean told(Admin admin, String name) throws Exception {
        ShareGroupDescription group;
        try {
            group = admin.describeShareGroups(List.of(name)).all().get().get(name);
        } catch (ExecutionException error) {
            if (error.getCause() instanceof GroupIdNotFoundException) {
                return false; // its first member has not joined
            }
            throw error;
        }
        List<Object> members = new ArrayList<>();
        for (ShareMemberDescription each : group.members()) {
            List<Object> partitions = each.assignment().topicPartitions().stream()
                .sorted((a, b) -> Integer.compare(a.partition(), b.partition()))
                .map(ShareGroupJudge::partition).toList();
            if (!partitions.isEmpty()) {
                members.add(row("groupId", name, "memberId", each.consumerId(), "instanceId", null,
                    "clientId", each.clientId(), "host", each.host(), "memberEpoch", each.memberEpoch(),
                    "assignment", partitions));
            }
        }
        if (members.isEmpty()) {
            return false;
        }
        System.out.println(new ObjectMapper().writeValueAsString(row("members", members,
            "state", group.groupState().toString(), "coordinator", group.coordinator().id())));
        return true;
    }

    private static Object partition(TopicPartition partition) {
        return row("topic", partition.topic(), "partition", partition.partition());
    }

    private static Map<String, Object> row(Object... fields) {
        Map<String, Object> row = new LinkedHashMap<>();
        for (int at = 0; at < fields.length; at += 2) {
            row.put((String) fields[at], fields[at + 1]);
        }
        return row;
    }
}
