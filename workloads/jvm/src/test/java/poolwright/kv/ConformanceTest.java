package poolwright.kv;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;
import poolwright.driver.Failure;

/** Tests the guarantees of the store with every engine. */
class ConformanceTest {
    @TempDir
    Path directory;

    /** Every engine, with reads by get and by iterator, with and without a pool. */
    static Stream<Settings> all() {
        return Arrays.stream(EngineKind.values())
                .flatMap(engine -> Stream.of(
                        settings(engine, Map.of("iterators", "true", "poolsize", "4")),
                        settings(engine, Map.of("iterators", "false", "poolsize", "0")),
                        settings(engine, Map.of("write.sync", "true", "stripes", "1"))));
    }

    /** Small caches and buffers, so that the tests reach the files. */
    private static Settings settings(EngineKind engine, Map<String, String> chosen) {
        Map<String, String> given = new HashMap<>();
        chosen.forEach((setting, value) -> given.put(engine.word + "." + setting, value));
        if (Setting.WRITE_BUFFER.by(engine).honoured()) {
            given.put(engine.word + ".writebuffer.size", "256K");
        }
        if (Setting.BLOCK_CACHE.by(engine).honoured()) {
            given.put(engine.word + ".lrublockcache", "8");
        }
        return new Settings(engine, "test", given);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static Versioned version(String value, VectorClock clock) {
        return new Versioned(bytes(value), clock);
    }

    private static VectorClock clock(int... nodes) {
        VectorClock clock = VectorClock.EMPTY;
        for (int node : nodes) {
            clock = clock.writtenBy(node, 1_000);
        }
        return clock;
    }

    private static List<String> values(Store store, String key) {
        return store.get(bytes(key)).stream().map(found -> new String(found.value(), StandardCharsets.UTF_8)).toList();
    }

    private static List<String> keys(Store store) {
        List<String> keys = new ArrayList<>();
        store.iterate((key, versions) -> keys.add(new String(key, StandardCharsets.UTF_8)));
        return keys;
    }

    @ParameterizedTest
    @MethodSource("all")
    void getsWhatWasPut(Settings settings) throws ObsoleteVersion {
        try (Store store = Store.open(directory, settings)) {
            assertEquals(List.of(), values(store, "a"));
            store.put(bytes("a"), version("one", clock(1)));
            store.put(bytes("aa"), version("", clock(1)));
            assertEquals(List.of("one"), values(store, "a"));
            assertEquals(List.of(""), values(store, "aa"));
            assertEquals(List.of(), values(store, "a\0"));
            assertEquals(clock(1), store.get(bytes("a")).get(0).clock());
        }
    }

    @ParameterizedTest
    @MethodSource("all")
    void refusesObsoleteVersions(Settings settings) throws ObsoleteVersion {
        try (Store store = Store.open(directory, settings)) {
            store.put(bytes("a"), version("second", clock(1, 1)));
            assertThrows(ObsoleteVersion.class, () -> store.put(bytes("a"), version("first", clock(1))));
            assertThrows(ObsoleteVersion.class, () -> store.put(bytes("a"), version("again", clock(1, 1))));
            assertEquals(List.of("second"), values(store, "a"));
            store.put(bytes("a"), version("third", clock(1, 1, 2)));
            assertEquals(List.of("third"), values(store, "a"));
        }
    }

    @ParameterizedTest
    @MethodSource("all")
    void putsAllOrNone(Settings settings) throws ObsoleteVersion {
        List<StoreAccess.Put> batch = new ArrayList<>();
        for (int number = 0; number < 300; number++) {
            batch.add(new StoreAccess.Put(bytes("key" + number), version("value " + number, clock(1))));
        }
        try (Store store = Store.open(directory, settings)) {
            store.putAll(batch.subList(0, 200));
            assertThrows(ObsoleteVersion.class, () -> store.putAll(batch.subList(199, 300)));
            assertEquals(List.of(), values(store, "key250"));
            store.putAll(batch.subList(200, 300));
            store.putAll(List.of());
            assertThrows(IllegalArgumentException.class, () -> store.putAll(List.of(batch.get(0), batch.get(0))));
        }
        try (Store store = Store.open(directory, settings)) {
            assertEquals(300, keys(store).size());
            assertEquals(List.of("value 299"), values(store, "key299"));
        }
    }

    @ParameterizedTest
    @MethodSource("all")
    void keepsConcurrentVersionsUntilOneDescendsFromThem(Settings settings) throws ObsoleteVersion {
        try (Store store = Store.open(directory, settings)) {
            store.put(bytes("a"), version("of 1", clock(1)));
            store.put(bytes("a"), version("of 2", clock(2)));
            assertEquals(List.of("of 1", "of 2"), values(store, "a"));
            assertThrows(ObsoleteVersion.class, () -> store.put(bytes("a"), version("of 2, late", clock(2))));
            store.put(bytes("a"), version("over 1", clock(1, 1)));
            assertEquals(List.of("of 2", "over 1"), values(store, "a"));
            store.put(bytes("a"), version("over both", clock(1, 1).merged(clock(2)).writtenBy(3, 0)));
            assertEquals(List.of("over both"), values(store, "a"));
        }
    }

    @ParameterizedTest
    @MethodSource("all")
    void deletesOnlyWhatTheClockKnows(Settings settings) throws ObsoleteVersion {
        try (Store store = Store.open(directory, settings)) {
            assertFalse(store.delete(bytes("a"), clock(1)));
            store.put(bytes("a"), version("of 1", clock(1, 1)));
            store.put(bytes("a"), version("of 2", clock(2)));
            assertFalse(store.delete(bytes("a"), clock(1)));
            assertTrue(store.delete(bytes("a"), clock(1, 1)));
            assertEquals(List.of("of 2"), values(store, "a"));
            assertTrue(store.delete(bytes("a"), clock(2, 2)));
            assertEquals(List.of(), values(store, "a"));
            assertEquals(List.of(), keys(store));
            store.put(bytes("a"), version("anew", clock(1)));
            assertEquals(List.of("anew"), values(store, "a"));
        }
    }

    @ParameterizedTest
    @MethodSource("all")
    void iteratesInTheOrderOfUnsignedBytes(Settings settings) throws ObsoleteVersion {
        List<byte[]> keys = Stream.of("00", "0000", "01", "7f", "80", "ff05").map(HexFormat.of()::parseHex).toList();
        try (Store store = Store.open(directory, settings)) {
            for (int number : new int[] {3, 5, 0, 4, 2, 1}) {
                store.put(keys.get(number), version("v" + number, clock(1)));
            }
            List<byte[]> seen = new ArrayList<>();
            store.iterate((key, versions) -> {
                assertEquals(1, versions.size());
                seen.add(key);
                // Reads must be possible while an iterator is open.
                assertEquals(1, store.get(key).size());
            });
            assertEquals(keys.size(), seen.size());
            for (int number = 0; number < keys.size(); number++) {
                assertArrayEquals(keys.get(number), seen.get(number));
            }
        }
    }

    @ParameterizedTest
    @MethodSource("all")
    void truncates(Settings settings) throws ObsoleteVersion {
        try (Store store = Store.open(directory, settings)) {
            store.truncate();
            for (int number = 0; number < 500; number++) {
                store.put(bytes("key" + number), version("value", clock(1)));
            }
            store.truncate();
            assertEquals(List.of(), keys(store));
            assertEquals(List.of(), values(store, "key7"));
            store.put(bytes("key7"), version("anew", clock(1)));
            assertEquals(List.of("key7"), keys(store));
        }
        try (Store store = Store.open(directory, settings)) {
            assertEquals(List.of("key7"), keys(store));
        }
    }

    @ParameterizedTest
    @MethodSource("all")
    void takesLongKeysAndValuesAndRefusesTooLongOnes(Settings settings) throws ObsoleteVersion {
        byte[] longest = new byte[Engine.LONGEST_KEY];
        Arrays.fill(longest, (byte) 'k');
        byte[] value = new byte[3 << 20];
        new SplittableRandom(1).nextBytes(value);
        try (Store store = Store.open(directory, settings)) {
            store.put(longest, new Versioned(value, clock(1)));
            assertThrows(IllegalArgumentException.class, () -> store.get(new byte[Engine.LONGEST_KEY + 1]));
            assertThrows(IllegalArgumentException.class, () -> store.put(new byte[0], version("x", clock(1))));
        }
        try (Store store = Store.open(directory, settings)) {
            assertArrayEquals(value, store.get(longest).get(0).value());
        }
    }

    /** Compares puts and deletes with a map; the store is closed and opened again in between. */
    @ParameterizedTest
    @MethodSource("all")
    void holdsWhatAMapHolds(Settings settings) throws ObsoleteVersion {
        Map<String, Versioned> model = new TreeMap<>();
        SplittableRandom random = new SplittableRandom(7);
        for (int opening = 0; opening < 3; opening++) {
            try (Store store = Store.open(directory, settings)) {
                for (int step = 0; step < 1_500; step++) {
                    String key = "key" + random.nextInt(400);
                    Versioned held = model.get(key);
                    if (held != null && random.nextInt(3) == 0) {
                        assertTrue(store.delete(bytes(key), held.clock()));
                        model.remove(key);
                    } else {
                        VectorClock over = held == null ? VectorClock.EMPTY : held.clock();
                        byte[] value = new byte[random.nextInt(900)];
                        random.nextBytes(value);
                        Versioned added = new Versioned(value, over.writtenBy(random.nextInt(3), step));
                        store.put(bytes(key), added);
                        model.put(key, added);
                    }
                }
                assertSame(model, store);
            }
        }
        try (Store store = Store.open(directory, settings)) {
            assertSame(model, store);
        }
    }

    private static void assertSame(Map<String, Versioned> model, Store store) {
        assertEquals(List.copyOf(model.keySet()), keys(store));
        model.forEach((key, expected) -> {
            List<Versioned> found = store.get(bytes(key));
            assertEquals(1, found.size(), key);
            assertEquals(expected.clock(), found.get(0).clock(), key);
            assertArrayEquals(expected.value(), found.get(0).value(), key);
        });
    }

    /** Each of many threads adds its own count to one key; none may be lost, whatever the number of stripes. */
    @ParameterizedTest
    @MethodSource("all")
    void losesNoWriteOfSeveralThreads(Settings settings) throws Exception {
        int writers = 6;
        int writes = 40;
        try (Store store = Store.open(directory, settings)) {
            together(writers, writer -> {
                for (int write = 0; write < writes; write++) {
                    addOne(store, writer);
                    // Batches of keys in opposite orders must not deadlock.
                    store.putAll(List.of(own(writer, write, writer % 2), own(writer, write, 1 - writer % 2)));
                }
            });
            VectorClock all = VectorClock.EMPTY;
            for (Versioned version : store.get(bytes("shared"))) {
                all = all.merged(version.clock());
            }
            for (int writer = 0; writer < writers; writer++) {
                assertEquals(writes, all.count(writer));
            }
        }
    }

    private static StoreAccess.Put own(int writer, int write, int which) {
        return new StoreAccess.Put(bytes("own" + which), version("by " + writer, clock(100 + writer * 100 + write)));
    }

    private static void addOne(Store store, int writer) {
        while (true) {
            VectorClock known = VectorClock.EMPTY;
            for (Versioned version : store.get(bytes("shared"))) {
                known = known.merged(version.clock());
            }
            try {
                store.put(bytes("shared"), version("by " + writer, known.writtenBy(writer, 0)));
                return;
            } catch (ObsoleteVersion late) {
                // Read again, like a client.
            }
        }
    }

    /** Readers, writers and iterators work while the store is repeatedly truncated. */
    @ParameterizedTest
    @EnumSource(EngineKind.class)
    void truncatesUnderLoad(EngineKind engine) throws Exception {
        try (Store store = Store.open(directory, settings(engine, Map.of()))) {
            together(4, worker -> {
                for (int step = 0; step < 200; step++) {
                    switch (worker) {
                        case 0 -> store.iterate((key, versions) -> assertFalse(versions.isEmpty()));
                        case 1 -> {
                            if (step % 20 == 0) {
                                store.truncate();
                            }
                        }
                        default -> {
                            String key = worker + ":" + step;
                            store.put(bytes(key), version("value", clock(worker)));
                            assertTrue(store.get(bytes(key)).size() <= 1);
                        }
                    }
                }
            });
            store.truncate();
            assertEquals(List.of(), keys(store));
        }
    }

    private interface Worker {
        void run(int number) throws Exception;
    }

    private static void together(int workers, Worker work) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(workers);
        try {
            List<Callable<Void>> all = new ArrayList<>();
            for (int number = 0; number < workers; number++) {
                int worker = number;
                all.add(() -> {
                    work.run(worker);
                    return null;
                });
            }
            for (Future<Void> one : threads.invokeAll(all)) {
                one.get();
            }
        } finally {
            threads.shutdownNow();
        }
    }

    @ParameterizedTest
    @EnumSource(EngineKind.class)
    void createsOnlyWhereItMay(EngineKind engine) {
        assertThrows(Failure.class, () -> Store.open(directory, settings(engine, Map.of("createifmissing", "false"))));
        Store.open(directory, settings(engine, Map.of())).close();
        Store.open(directory, settings(engine, Map.of("createifmissing", "false"))).close();
        assertThrows(Failure.class, () -> Store.open(directory, settings(engine, Map.of("errorifexists", "true"))));
    }

    @ParameterizedTest
    @EnumSource(EngineKind.class)
    void truncatesAlsoWhereItMayNotCreate(EngineKind engine) throws ObsoleteVersion {
        try (Store store = Store.open(directory, settings(engine, Map.of("errorifexists", "true")))) {
            store.put(bytes("a"), version("one", clock(1)));
            store.truncate();
            assertEquals(List.of(), keys(store));
        }
        try (Store store = Store.open(directory, settings(engine, Map.of("createifmissing", "false")))) {
            store.put(bytes("a"), version("one", clock(1)));
            store.truncate();
            store.put(bytes("b"), version("two", clock(1)));
            assertEquals(List.of("b"), keys(store));
        }
    }
}
