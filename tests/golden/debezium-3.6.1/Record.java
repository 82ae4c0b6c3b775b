import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.PrintWriter;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Topic, key and value of each message of Debezium's engine, a line each: PROPERTIES OUTPUT, until stdin has a byte. */
public class Record {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (Reader reader = Files.newBufferedReader(Path.of(arguments[0]))) {
            properties.load(reader);
        }
        PrintWriter output = new PrintWriter(Files.newBufferedWriter(Path.of(arguments[1])), true);
        ExecutorService executor = Executors.newSingleThreadExecutor();
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
            .using(properties)
            .notifying(event -> output.println(event.destination() + "\t" + event.key() + "\t" + event.value()))
            .using((success, message, error) -> System.err.println(message))
            .build();
        executor.execute(engine);
        System.in.read();
        engine.close();
        output.close();
        System.exit(0);
    }
}
