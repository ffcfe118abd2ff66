package poolwright.orientdb;

/**
 * A line of N-Triples, with its terms as written, including brackets: the report stored them in this form.
 *
 * @param subject an article
 * @param predicate the relation
 * @param object a category
 */
record Triple(String subject, String predicate, String object) {
    /** Parses a line; returns null for a comment, an empty line, and anything else that is not "subject predicate object ." */
    static Triple of(String line) {
        int first = line.indexOf(' ');
        int second = line.indexOf(' ', first + 1);
        int third = line.indexOf(' ', second + 1);
        if (first < 1 || second < 0 || third < 0 || line.charAt(0) == '#' || !line.startsWith(".", third + 1)) {
            return null;
        }
        return new Triple(line.substring(0, first), line.substring(first + 1, second), line.substring(second + 1, third));
    }

    @Override
    public String toString() {
        return subject + " " + predicate + " " + object + " .";
    }
}
