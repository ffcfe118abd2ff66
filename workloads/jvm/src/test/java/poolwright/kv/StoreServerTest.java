package poolwright.kv;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import poolwright.driver.Failure;

/** Tests that a store behind a socket answers like the store itself. */
@Timeout(60)
class StoreServerTest {
    private static final byte[] KEY = "key".getBytes(StandardCharsets.UTF_8);

    @TempDir
    Path directory;

    private Store open() {
        return Store.open(directory, new Settings(EngineKind.LEVELDB, "test", Map.of("leveldb.lrublockcache", "8")));
    }

    private static Versioned version(int length, VectorClock clock) {
        byte[] value = new byte[length];
        for (int i = 0; i < length; i++) {
            value[i] = (byte) i;
        }
        return new Versioned(value, clock);
    }

    @Test
    void answersLikeTheStore() throws IOException, ObsoleteVersion {
        VectorClock first = VectorClock.EMPTY.writtenBy(1, 1_000);
        VectorClock other = VectorClock.EMPTY.writtenBy(2, 1_000);
        try (Store store = open();
                StoreServer server = new StoreServer(store, directory);
                RemoteStore one = server.connect();
                RemoteStore two = server.connect()) {
            assertEquals(List.of(), one.get(KEY));
            // Longer than the buffers of the connection.
            one.putAll(List.of(new StoreAccess.Put(KEY, version(100_000, first))));
            assertArrayEquals(version(100_000, first).value(), two.get(KEY).get(0).value());
            assertEquals(first, two.get(KEY).get(0).clock());
            two.putAll(List.of(new StoreAccess.Put(KEY, version(0, other))));
            assertEquals(2, one.get(KEY).size(), "concurrent versions");
            String refused = assertThrows(
                            ObsoleteVersion.class, () -> two.putAll(List.of(new StoreAccess.Put(KEY, version(1, first)))))
                    .getMessage();
            assertTrue(refused.contains("is obsolete"), refused);
            assertTrue(one.delete(KEY, first.merged(other)));
            assertFalse(one.delete(KEY, first));
            assertEquals(List.of(), store.get(KEY));
        }
        assertFalse(Files.exists(directory.resolve(StoreServer.SOCKET)));
    }

    @Test
    void aFailureOfTheStoreIsTheClients() throws IOException {
        try (Store store = open();
                StoreServer server = new StoreServer(store, directory);
                RemoteStore client = server.connect()) {
            String why = assertThrows(Failure.class, () -> client.get(new byte[0])).getMessage();
            assertTrue(why.contains("a key must have 1 to"), why);
            assertEquals(List.of(), client.get(KEY), "the connection can still be used");
        }
    }
}
