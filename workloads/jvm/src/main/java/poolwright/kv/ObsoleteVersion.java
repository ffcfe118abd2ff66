package poolwright.kv;

/** A put was refused because the store contains the same version or a later one. */
final class ObsoleteVersion extends Exception {
    private static final long serialVersionUID = 1;

    ObsoleteVersion(VectorClock put, VectorClock held) {
        this("version " + put + " is obsolete: the store contains " + held);
    }

    ObsoleteVersion(String message) {
        super(message);
    }
}
