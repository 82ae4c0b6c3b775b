import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.List;
import java.util.regex.Pattern;

/** What java.util.regex finds: a line of 0 and 1, one for each name, or E, for each pattern. */
public final class Judge {
    public static void main(String[] files) throws Exception {
        List<String> names = texts(files[0]);
        for (String pattern : texts(files[1])) {
            System.out.println(found(pattern, names));
        }
    }

    private static String found(String text, List<String> names) {
        try {
            Pattern pattern = Pattern.compile(text);
            StringBuilder line = new StringBuilder();
            names.forEach(name -> line.append(pattern.matcher(name).find() ? '1' : '0'));
            return line.toString();
        } catch (RuntimeException | StackOverflowError error) { // null pointers, too, after some classes
            return "E";
        }
    }

    private static List<String> texts(String file) throws Exception {
        return Files.readAllLines(Path.of(file)).stream()
                .map(line -> new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8))
                .toList();
    }
}
