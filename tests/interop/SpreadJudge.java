import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Java's producer as the judge of where rows without a key go: {@code servers topic writes rows size}. Each write
 * is a producer of its own; printed are its rows in each partition, one write a line.
 */
public final class SpreadJudge {
    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        int writes = Integer.parseInt(args[2]);
        int rows = Integer.parseInt(args[3]);
        byte[] value = new byte[Integer.parseInt(args[4])];
        for (int write = 0; write < writes; write++) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            ByteArraySerializer bytes = new ByteArraySerializer();
            try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties, bytes, bytes)) {
                int[] counts = new int[producer.partitionsFor(args[1]).size()];
                for (int row = 0; row < rows; row++) {
                    sent.add(producer.send(new ProducerRecord<>(args[1], value)));
                }
                for (Future<RecordMetadata> each : sent) {
                    counts[each.get().partition()]++;
                }
                StringBuilder line = new StringBuilder();
                for (int count : counts) {
                    line.append(count).append(' ');
                }
                System.out.println(line.toString().strip());
            }
        }
    }
}
