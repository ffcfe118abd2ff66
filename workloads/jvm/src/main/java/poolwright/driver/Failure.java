package poolwright.driver;

/** The work cannot be done; the message is one sentence that says what failed and what to do, for a person. */
public final class Failure extends RuntimeException {
    private static final long serialVersionUID = 1;

    public Failure(String message) {
        super(message);
    }

    public Failure(String message, Throwable cause) {
        super(message + ": " + cause.getMessage(), cause);
    }
}
