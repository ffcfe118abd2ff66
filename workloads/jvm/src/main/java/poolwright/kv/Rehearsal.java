package poolwright.kv;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/**
 * Runs the code on a small store beside the one under test, so that the JVM has compiled it before the measurement. The store
 * under test and its files stay cold.
 */
final class Rehearsal {
    static final String STORE = "rehearsal";
    private static final long ENTRIES = 2_000;
    private static final int READS = 10_000;

    private Rehearsal() {}

    static void run(Plan plan, Path scratch) throws IOException, InterruptedException {
        remove(scratch.resolve(STORE));
        try (Store store = Store.open(scratch, plan.rehearsal())) {
            Crew.run(plan, store, (thread, client) -> {
                for (long number = thread; number < ENTRIES; number += plan.threads()) {
                    client.load(number);
                }
                for (int read = thread; read < READS; read += plan.threads()) {
                    client.read(thread + plan.threads() * client.random().nextLong(ENTRIES / plan.threads() - 1));
                }
            });
        }
        remove(scratch.resolve(STORE));
    }

    private static void remove(Path directory) throws IOException {
        if (Files.exists(directory)) {
            List<Path> deepestFirst;
            try (Stream<Path> found = Files.walk(directory)) {
                deepestFirst = found.sorted(Comparator.reverseOrder()).toList();
            }
            for (Path path : deepestFirst) {
                Files.delete(path);
            }
        }
    }
}
