package poolwright.orientdb;

import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import poolwright.driver.Failure;

/**
 * Writes N-Triples in the form of DBpedia's "article categories": article by article, each with one or more categories. A
 * category is drawn in proportion to its number of articles (Simon's process, 1955, whose sizes follow a power law). The
 * numbers of edges and of different vertices are exact. The share of categories, {@code CATEGORIES} of all vertices, is an
 * assumption, because the report does not state it.
 */
final class TripleGenerator {
    static final String SUBJECT = "<http://purl.org/dc/terms/subject>";
    private static final double CATEGORIES = 0.08;
    private static final int TRIES = 16;

    private final Random random;
    private final Names names;
    private final int edges;
    private final int categories;
    private final int articles;
    private final int[] categoryOf;
    private final List<String> categoryNames = new ArrayList<>();

    TripleGenerator(int vertices, int edges, long seed) {
        random = new Random(seed);
        names = new Names(random);
        this.edges = edges;
        categories = Math.max(1, (int) Math.round(vertices * CATEGORIES));
        articles = vertices - categories;
        if (articles < 1 || edges < articles || edges < categories) {
            throw new Failure(vertices + " vertices need more than " + edges + " edges, because every article has a category");
        }
        categoryOf = new int[edges];
    }

    void write(Path file) throws IOException {
        try (BufferedWriter out = Files.newBufferedWriter(file, StandardCharsets.UTF_8)) {
            forEach(triple -> {
                out.write(triple.toString());
                out.newLine();
            });
        }
    }

    void forEach(Triples.Taker taker) throws IOException {
        int articlesLeft = articles;
        int first = 0;
        String article = "";
        for (int edge = 0; edge < edges; edge++) {
            // Draw exactly the required number of edges that begin an article; the first edge always does.
            if (edge == 0 || random.nextDouble() * (edges - edge) < articlesLeft) {
                article = names.article();
                articlesLeft--;
                first = edge;
            }
            categoryOf[edge] = category(edge, first);
            taker.take(new Triple(article, SUBJECT, categoryNames.get(categoryOf[edge])));
        }
    }

    /** Returns a new category for the article that began at the edge {@code first}. */
    private int category(int edge, int first) {
        if ((long) categoryNames.size() * edges < (edge + 1L) * categories) {
            return introduce();
        }
        for (int i = 0; i < TRIES; i++) {
            int copied = categoryOf[random.nextInt(edge)];
            if (isNew(copied, edge, first)) {
                return copied;
            }
        }
        for (int other = 0; other < categoryNames.size(); other++) {
            if (isNew(other, edge, first)) {
                return other;
            }
        }
        if (categoryNames.size() == categories) {
            throw new Failure(edges + " edges are too many for " + (articles + categories) + " vertices");
        }
        return introduce();
    }

    private int introduce() {
        categoryNames.add(names.category());
        return categoryNames.size() - 1;
    }

    private boolean isNew(int category, int edge, int first) {
        for (int i = first; i < edge; i++) {
            if (categoryOf[i] == category) {
                return false;
            }
        }
        return true;
    }
}
