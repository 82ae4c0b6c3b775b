import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.StringJoiner;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Java's producers as the judge of the order of keys: {@code servers topic keys counts}. The topic has the first
 * of the counts of partitions, and grows to the others while all write. Each key is of one thread, which writes
 * it again and again, and says how often it did before. Producers learn late of new partitions, one after the
 * other, but all have before there are more. Printed is what was written, and how the topic grew, as JSON.
 */
public final class KeyOrderJudge {
    private static final int THREADS = 6;
    private static final int PRODUCERS = 3;

    private final String topic;
    private final int keys;
    private final List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
    private final AtomicIntegerArray rounds = new AtomicIntegerArray(THREADS);
    private final AtomicBoolean ends = new AtomicBoolean();
    private final AtomicLong written = new AtomicLong();
    private final AtomicReference<Exception> failure = new AtomicReference<>();

    private KeyOrderJudge(String servers, String topic, int keys) {
        this.topic = topic;
        this.keys = keys;
        for (int number = 0; number < PRODUCERS; number++) {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", servers);
            properties.put("metadata.max.age.ms", 50 + 150 * number);
            properties.put("linger.ms", 10);
            properties.put("buffer.memory", 4 << 20); // each record of it takes far more in this process
            ByteArraySerializer bytes = new ByteArraySerializer();
            producers.add(new KafkaProducer<>(properties, bytes, bytes));
        }
    }

    public static void main(String[] args) throws Exception {
        KeyOrderJudge judge = new KeyOrderJudge(args[0], args[1], Integer.parseInt(args[2]));
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        try (Admin admin = Admin.create(properties)) {
            System.out.println(judge.run(admin, args[3].split(",")));
        }
    }

    private String run(Admin admin, String[] counts) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < THREADS; number++) {
            int own = number;
            threads.add(new Thread(() -> write(own)));
            threads.get(number).start();
        }
        StringJoiner layouts = new StringJoiner(",");
        StringJoiner moments = new StringJoiner(",");
        layouts.add("{\"partitions\":" + counts[0] + "}");
        awaitRounds(1);
        for (int layout = 1; layout < counts.length; layout++) {
            moments.add("\"" + System.currentTimeMillis() + "\"");
            String stood = ends(admin, Integer.parseInt(counts[layout - 1]));
            int count = Integer.parseInt(counts[layout]);
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(count))).all().get();
            layouts.add("{\"partitions\":" + count + ",\"boundaries\":{" + stood + "}}");
            for (KafkaProducer<byte[], byte[]> producer : producers) {
                while (producer.partitionsFor(topic).size() < count) {
                    Thread.sleep(20);
                }
            }
            awaitRounds(2); // the one under way may have begun before all knew
        }
        ends.set(true);
        for (Thread thread : threads) {
            thread.join();
        }
        for (KafkaProducer<byte[], byte[]> producer : producers) {
            producer.close();
        }
        if (failure.get() != null) {
            throw failure.get();
        }
        return "{\"records\":" + written + ",\"layouts\":[" + layouts + "],\"moments\":[" + moments + "]}";
    }

    /** Each thread has the keys that leave its number as a remainder. */
    private void write(int own) {
        KafkaProducer<byte[], byte[]> producer = producers.get(own % PRODUCERS);
        Callback told = (place, error) -> failure.compareAndSet(null, error);
        for (int round = 0; !ends.get() && failure.get() == null; round++) {
            byte[] value = Integer.toString(round).getBytes();
            for (int key = own; key < keys; key += THREADS) {
                producer.send(new ProducerRecord<>(topic, ("key " + key).getBytes(), value), told);
                written.incrementAndGet();
            }
            rounds.incrementAndGet(own);
            pause(200); // fewer records, where the machine is slow to answer anything else
        }
    }

    private static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException nobodyDoes) {
            throw new AssertionError(nobodyDoes);
        }
    }

    private void awaitRounds(int more) throws Exception {
        for (int number = 0; number < THREADS; number++) {
            int enough = rounds.get(number) + more;
            while (rounds.get(number) < enough && failure.get() == null) {
                Thread.sleep(5);
            }
        }
    }

    private String ends(Admin admin, int count) throws Exception {
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        for (int partition = 0; partition < count; partition++) {
            asked.put(new TopicPartition(topic, partition), OffsetSpec.latest());
        }
        StringJoiner found = new StringJoiner(",");
        admin.listOffsets(asked).all().get().forEach(
            (log, end) -> found.add("\"" + log.partition() + "\":" + end.offset()));
        return found.toString();
    }
}
