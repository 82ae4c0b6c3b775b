import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** Prints Kafka's own error codes: number, name, and what a client does: "refresh", "retry" or "fail". */
public class ErrorsJudge {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values()) {
            Exception cause = error.exception();
            String action = cause instanceof InvalidMetadataException ? "refresh"
                : cause instanceof RetriableException ? "retry" : "fail";
            System.out.println(error.code() + "\t" + error.name() + "\t" + action);
        }
    }
}
