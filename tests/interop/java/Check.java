/** The checks of a scenario: prints those that pass, and ends the program at the first one that fails. */
final class Check {
    private Check() {}

    static void that(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
        System.out.println("checked: " + what);
    }

    static void equal(Object expected, Object found, String what) {
        if (!java.util.Objects.equals(expected, found))
            throw new AssertionError(what + ": expected " + expected + ", found " + found);
        System.out.println("checked: " + what);
    }

    /** Returns the class of an operation's error; null if it succeeds. */
    static Class<?> failure(java.util.concurrent.Callable<?> operation) {
        try {
            operation.call();
            return null;
        } catch (java.util.concurrent.ExecutionException error) {
            return error.getCause().getClass();
        } catch (Exception error) {
            return error.getClass();
        }
    }
}
