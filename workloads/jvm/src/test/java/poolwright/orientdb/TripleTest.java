package poolwright.orientdb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TripleTest {
    private static final String LINE =
            "<http://it.dbpedia.org/resource/Armonium> <http://purl.org/dc/terms/subject> <http://it.dbpedia.org/resource/Categoria:Aerofoni> .";

    @Test
    void aLineOfTheFile() {
        Triple triple = Triple.of(LINE);
        assertEquals("<http://it.dbpedia.org/resource/Armonium>", triple.subject());
        assertEquals("<http://purl.org/dc/terms/subject>", triple.predicate());
        assertEquals("<http://it.dbpedia.org/resource/Categoria:Aerofoni>", triple.object());
        assertEquals(LINE, triple.toString());
    }

    @Test
    void whatIsNoTriple() {
        assertNull(Triple.of(""));
        assertNull(Triple.of("# started 2013-07-11T09:13:05Z"));
        assertNull(Triple.of("# a b ."));
        assertNull(Triple.of("<a> <b> <c>"));
        assertNull(Triple.of("<a> <b> \"two words\" ."));
        assertNull(Triple.of(" <a> <b> ."));
    }

    @Test
    void aRealFileIsReadPackedAndOnlyAsFarAsAskedFor(@TempDir Path folder) throws IOException {
        String text = "# started\n" + LINE + "\n\n" + LINE.replace("Armonium", "Organo") + "\n# completed\n";
        Path plain = Files.writeString(folder.resolve("a.nt"), text);
        Path packed = folder.resolve("a.nt.gz");
        try (OutputStream out = new GZIPOutputStream(Files.newOutputStream(packed))) {
            out.write(text.getBytes(StandardCharsets.UTF_8));
        }
        for (Path file : List.of(plain, packed)) {
            assertEquals(new Triples.Shape(2, 3), new Triples(file, 0).shape());
            assertEquals(new Triples.Shape(1, 2), new Triples(file, 1).shape());
            List<String> subjects = new ArrayList<>();
            new Triples(file, 0).forEach(triple -> subjects.add(triple.subject()));
            assertEquals(List.of("<http://it.dbpedia.org/resource/Armonium>", "<http://it.dbpedia.org/resource/Organo>"), subjects);
            assertEquals(text, new String(new Triples(file, 0).sample(), StandardCharsets.UTF_8));
        }
    }

    @Test
    void aSearchIsTheLastPartOfTheName() {
        assertEquals("\"Armonium_(film)\"", Lucene.term("<http://it.dbpedia.org/resource/Armonium_(film)>"));
        assertEquals("\"Citt\\\\u00E0\"", Lucene.term("<http://it.dbpedia.org/resource/Citt\\u00E0>"));
    }

    @Test
    void theFileThatABackupIsAt() {
        assertEquals("nodo.pcl", Backup.named("\n- Compressing file nodo.pcl..."));
        assertNull(Backup.named("ok size=12k compressedSize=3k ratio=70% elapsed=1ms"));
    }
}
