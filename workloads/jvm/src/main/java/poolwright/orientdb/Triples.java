package poolwright.orientdb;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.zip.GZIPInputStream;

/** A file of N-Triples, plain or .gz. */
final class Triples {
    private static final int BUFFER = 1 << 20;
    private static final int SAMPLE = 16 << 20;
    private static final long ALL = Long.MAX_VALUE;

    private final Path file;
    private final long limit;

    /** The first {@code limit} triples of the file; 0 means all. */
    Triples(Path file, long limit) {
        this.file = file;
        this.limit = limit == 0 ? ALL : limit;
    }

    /** Receives one triple after another. */
    interface Taker {
        void take(Triple triple) throws IOException;
    }

    void forEach(Taker taker) throws IOException {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(open(), StandardCharsets.UTF_8), BUFFER)) {
            long taken = 0;
            for (String line = lines.readLine(); line != null && taken < limit; line = lines.readLine()) {
                Triple triple = Triple.of(line);
                if (triple != null) {
                    taker.take(triple);
                    taken++;
                }
            }
        }
    }

    /**
     * The required size of the graph of these triples.
     *
     * @param edges number of triples
     * @param vertices number of different subjects and objects
     */
    record Shape(long edges, long vertices) {}

    Shape shape() throws IOException {
        long[] edges = {0};
        Set<String> names = new HashSet<>();
        forEach(triple -> {
            edges[0]++;
            names.add(triple.subject());
            names.add(triple.object());
        });
        return new Shape(edges[0], names.size());
    }

    /** Returns up to {@code count} subjects, drawn uniformly from the triples. */
    List<String> draw(int count, Random random) throws IOException {
        List<String> drawn = new ArrayList<>();
        long[] seen = {0};
        forEach(triple -> {
            seen[0]++;
            if (drawn.size() < count) {
                drawn.add(triple.subject());
            } else if (random.nextDouble() * seen[0] < count) {
                drawn.set(random.nextInt(count), triple.subject());
            }
        });
        Collections.shuffle(drawn, random);
        return drawn;
    }

    /** Returns the beginning of the file's text, for the figures of its compressibility. */
    byte[] sample() throws IOException {
        try (InputStream in = open()) {
            return in.readNBytes(SAMPLE);
        }
    }

    private InputStream open() throws IOException {
        InputStream raw = Files.newInputStream(file);
        return file.toString().endsWith(".gz") ? new GZIPInputStream(raw, BUFFER) : raw;
    }
}
