import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.concurrent.Executors;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Sends what Debezium's engine reads to Kafka, as Kafka Connect does: PROPERTIES BOOTSTRAP_SERVERS. */
public class SendChanges {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (Reader reader = Files.newBufferedReader(Path.of(arguments[0]))) {
            properties.load(reader);
        }
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[1]);
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        settings.put("delivery.timeout.ms", "3600000");
        settings.put("max.block.ms", "3600000");
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings);
        DebeziumEngine.create(Json.class)
            .using(properties)
            .notifying(event -> producer.send(
                new ProducerRecord<>(event.destination(), event.key(), event.value()),
                (place, error) -> {
                    if (error != null) {
                        error.printStackTrace();
                        System.exit(1);
                    }
                }))
            .using((success, message, error) -> System.err.println(message + " " + error))
            .build()
            .run();
        System.exit(1);
    }
}
