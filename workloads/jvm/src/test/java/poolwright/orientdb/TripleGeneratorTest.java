package poolwright.orientdb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import poolwright.driver.Failure;

class TripleGeneratorTest {
    private static final int VERTICES = 9429;
    private static final int EDGES = 13_902;

    @TempDir
    Path folder;

    private Path generated(int vertices, int edges, long seed) throws IOException {
        Path file = folder.resolve(vertices + "-" + edges + "-" + seed + ".nt");
        new TripleGenerator(vertices, edges, seed).write(file);
        return file;
    }

    @Test
    void theGraphHasExactlyTheEdgesAndVerticesThatWereAskedFor() throws IOException {
        for (int[] wanted : new int[][] {{VERTICES, EDGES}, {2, 1}, {13, 12}, {200, 300}, {1000, 3000}}) {
            Triples triples = new Triples(generated(wanted[0], wanted[1], 1), 0);
            assertEquals(new Triples.Shape(wanted[1], wanted[0]), triples.shape());
        }
    }

    @Test
    void noEdgeIsThereTwiceAndArticlesStandTogether() throws IOException {
        Set<String> edges = new HashSet<>();
        Set<String> articles = new HashSet<>();
        String[] last = {""};
        new Triples(generated(VERTICES, EDGES, 2), 0).forEach(triple -> {
            assertTrue(edges.add(triple.toString()), triple.toString());
            if (!triple.subject().equals(last[0])) {
                assertTrue(articles.add(triple.subject()), "an article is continued later: " + triple);
            }
            last[0] = triple.subject();
            assertEquals(TripleGenerator.SUBJECT, triple.predicate());
            assertTrue(triple.object().contains("/Categoria:"), triple.object());
            assertFalse(triple.subject().contains("/Categoria:"), triple.subject());
        });
    }

    @Test
    void someCategoriesHaveMostOfTheArticles() throws IOException {
        Map<String, Integer> sizes = new HashMap<>();
        new Triples(generated(VERTICES, EDGES, 3), 0).forEach(triple -> sizes.merge(triple.object(), 1, Integer::sum));
        List<Integer> sorted = sizes.values().stream().sorted((a, b) -> b - a).toList();
        int tenth = sorted.subList(0, sorted.size() / 10).stream().mapToInt(size -> size).sum();
        assertTrue(tenth > EDGES * 0.4, "the largest tenth has " + tenth);
        assertTrue(sorted.get(sorted.size() - 1) < 4, "every category is large");
    }

    @Test
    void theSeedDecides() throws IOException {
        String once = Files.readString(generated(VERTICES, EDGES, 4));
        Files.delete(folder.resolve(VERTICES + "-" + EDGES + "-4.nt"));
        assertEquals(once, Files.readString(generated(VERTICES, EDGES, 4)));
        assertFalse(once.equals(Files.readString(generated(VERTICES, EDGES, 5))));
    }

    @Test
    void whatCannotBeIsRefused() {
        assertThrows(Failure.class, () -> new TripleGenerator(100, 50, 1));
        assertThrows(Failure.class, () -> new TripleGenerator(1, 1, 1));
        // One article and one category can have at most one edge.
        assertThrows(Failure.class, () -> generated(2, 2, 1));
    }

    @Test
    void subjectsAreDrawnFromTheFile() throws IOException {
        Path file = generated(1000, 1474, 6);
        Set<String> subjects = new TreeSet<>();
        new Triples(file, 0).forEach(triple -> subjects.add(triple.subject()));
        List<String> drawn = new Triples(file, 0).draw(200, new java.util.Random(1));
        assertEquals(200, drawn.size());
        assertTrue(subjects.containsAll(drawn));
        assertTrue(new HashSet<>(drawn).size() > 150, "the draw is not spread");
        assertEquals(drawn, new Triples(file, 0).draw(200, new java.util.Random(1)));
        assertEquals(1474, new Triples(file, 0).draw(5000, new java.util.Random(1)).size());
    }
}
