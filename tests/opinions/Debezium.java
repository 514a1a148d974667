// Debezium's DDL parser, asked over standard input and output. Lines of words in Base64, separated by blanks:
//   case                      forget all tables
//   parse SCHEMA STATEMENT    answers "ok", or "error" and why
//   tables                    answers each table as SCHEMA TABLE COLUMN..., then "end"

import io.debezium.connector.mysql.antlr.MySqlAntlrDdlParser;
import io.debezium.relational.TableId;
import io.debezium.relational.Tables;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

public class Debezium {
    private static final PrintStream ANSWERS = System.out;

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err);  // what libraries print is no answer
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        var tables = new Tables();
        var parser = new MySqlAntlrDdlParser();
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split(" ", -1);
            switch (words[0]) {
                case "case" -> {
                    tables = new Tables();
                    parser = new MySqlAntlrDdlParser();
                }
                case "parse" -> {
                    try {
                        parser.setCurrentDatabase(decoded(words[1]));
                        parser.parse(decoded(words[2]), tables);
                        answer("ok");
                    } catch (Exception error) {
                        answer("error " + encoded(String.valueOf(error.getMessage())));
                    }
                }
                case "tables" -> {
                    for (TableId id : tables.tableIds()) {
                        var answer = new StringBuilder(encoded(id.catalog()) + " " + encoded(id.table()));
                        for (var column : tables.forTable(id).columns()) {
                            answer.append(' ').append(encoded(column.name()));
                        }
                        answer(answer.toString());
                    }
                    answer("end");
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    private static void answer(String line) {
        ANSWERS.print(line + "\n");
        ANSWERS.flush();
    }

    private static String decoded(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }

    private static String encoded(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
