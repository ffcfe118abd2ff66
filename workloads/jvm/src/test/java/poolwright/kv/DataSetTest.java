package poolwright.kv;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonParser;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.Set;
import org.junit.jupiter.api.Test;

class DataSetTest {
    @Test
    void jsonEntriesHaveTheReportsSizes() {
        JsonSet set = new JsonSet(3);
        for (long member = 0; member < 500; member++) {
            int total = 0;
            for (int entry = 0; entry < JsonSet.ENTRIES; entry++) {
                long number = member * JsonSet.ENTRIES + entry;
                int key = set.key(number).length;
                byte[] value = set.value(number, 0);
                assertTrue(key >= 30 && key <= 40, "key of " + key);
                assertTrue(JsonParser.parseString(new String(value, StandardCharsets.US_ASCII)).isJsonObject());
                int least = entry == 0 ? 1000 : entry == 1 ? 560 : 30;
                int most = entry == 0 ? 1050 : entry == 1 ? 640 : 40;
                assertTrue(value.length >= least && value.length <= most, "entry " + entry + " of " + value.length);
                total += value.length;
            }
            assertTrue(total > 1_650 && total < 1_850, "member of " + total);
        }
    }

    private static Set<String> keys(DataSet set) {
        Set<String> keys = new HashSet<>();
        for (long number = 0; number < 6_000; number++) {
            assertTrue(keys.add(new String(set.key(number), StandardCharsets.US_ASCII)));
        }
        return keys;
    }

    @Test
    void keysAreDistinctAndSoAreThoseOfAnotherSeed() {
        assertTrue(Collections.disjoint(keys(new JsonSet(1)), keys(new JsonSet(2))));
        assertTrue(Collections.disjoint(keys(new RandomSet(1, 10, false)), keys(new RandomSet(2, 10, false))));
        keys(new RandomSet(1, 10, true));
    }

    @Test
    void orderedKeysGrow() {
        RandomSet set = new RandomSet(1, 10, true);
        for (long number = 1; number < 5_000; number++) {
            assertTrue(Arrays.compareUnsigned(set.key(number - 1), set.key(number)) < 0);
        }
    }

    @Test
    void valuesAreOfTheSeedTheNumberAndTheChangeAlone() {
        RandomSet set = new RandomSet(1, 80, false);
        assertEquals(80, set.value(7, 0).length);
        assertArrayEquals(set.value(7, 0), new RandomSet(1, 80, false).value(7, 0));
        assertFalse(Arrays.equals(set.value(7, 0), set.value(7, 1)));
        assertFalse(Arrays.equals(set.value(7, 0), set.value(8, 0)));
        assertFalse(Arrays.equals(set.value(7, 0), new RandomSet(2, 80, false).value(7, 0)));
    }

    @Test
    void aSampleEndsWhereTheEntriesEnd() {
        assertEquals(300, new RandomSet(1, 100, false).sample(3, 1 << 20).length);
        assertEquals(1 << 10, new RandomSet(1, 100, false).sample(1_000, 1 << 10).length);
    }
}
