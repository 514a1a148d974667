// Debezium's engine with its connector for MySQL, and a consumer that counts the rows that Kafka Connect would get.
// Arguments: NAME=VALUE of the engine, which begins and ends at lines of the standard input. After each batch it prints
// the rows so far, and the monotonic clock in nanoseconds; when it has ended, "stopped".

import io.debezium.embedded.Connect;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.DebeziumEngine.RecordCommitter;
import io.debezium.engine.RecordChangeEvent;
import io.debezium.engine.format.ChangeEventFormat;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;

public class Debezium {
    private static final PrintStream COUNTS = System.out;
    private static long rows;

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err);  // what libraries print is no count
        var properties = new Properties();
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            properties.setProperty(parts[0], parts[1]);
        }
        var lines = new BufferedReader(new InputStreamReader(System.in));
        while (lines.readLine() != null) {
            var engine = DebeziumEngine.create(ChangeEventFormat.of(Connect.class))
                    .using(properties)
                    .using((success, message, error) -> System.err.println(message))
                    .notifying(Debezium::count)
                    .build();
            var running = new Thread(engine);
            running.start();
            lines.readLine();
            engine.close();
            running.join();
            COUNTS.print("stopped\n");
            COUNTS.flush();
        }
    }

    private static void count(
            List<RecordChangeEvent<SourceRecord>> batch, RecordCommitter<RecordChangeEvent<SourceRecord>> committer)
            throws InterruptedException {
        for (var event : batch) {
            if (event.record().value() instanceof Struct value && value.getStruct("after") != null) {
                rows++;
            }
            committer.markProcessed(event);
        }
        committer.markBatchFinished();
        COUNTS.print(rows + " " + System.nanoTime() + "\n");
        COUNTS.flush();
    }
}
