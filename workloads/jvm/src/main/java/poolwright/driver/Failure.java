package poolwright.driver;

/** A failure of the work; the message says in one sentence what failed and what to do. */
public final class Failure extends RuntimeException {
    private static final long serialVersionUID = 1;

    public Failure(String message) {
        super(message);
    }

    public Failure(String message, Throwable cause) {
        super(message + ": " + cause.getMessage(), cause);
    }
}
