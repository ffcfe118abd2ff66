package poolwright.driver;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Sizes in the spelling of ZFS: 16K, 1M. */
public final class Sizes {
    private static final Pattern FORM = Pattern.compile("([0-9]+)([KMGT]?)", Pattern.CASE_INSENSITIVE);

    private Sizes() {}

    /** Converts a size to bytes; the error message names {@code what}. */
    public static long parse(String what, String text) {
        Matcher found = FORM.matcher(text);
        if (!found.matches()) {
            throw new Failure(what + " must be a number of bytes, optionally with K, M, G or T, not '" + text + "'");
        }
        int power = " KMGT".indexOf(found.group(2).isEmpty() ? ' ' : Character.toUpperCase(found.group(2).charAt(0)));
        return Math.multiplyExact(Long.parseLong(found.group(1)), 1L << (10 * power));
    }
}
