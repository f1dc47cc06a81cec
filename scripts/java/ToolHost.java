import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.PrintStream;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs command-line tools of Apache Kafka one after the other, so that a JVM starts once for many of them.
 *
 * <p>Standard input: per run the number of strings, then the main class and its arguments. Standard output: per run the
 * exit status, and what the tool wrote to standard output and to standard error, each with its length. Hooks that a tool
 * adds to the Runtime, and not to Kafka's Exit, do not run.
 */
final class ToolHost {
    private ToolHost() {}

    public static void main(String[] none) throws Exception {
        DataInputStream commands = new DataInputStream(System.in);
        DataOutputStream results = new DataOutputStream(System.out);
        System.setIn(new ByteArrayInputStream(new byte[0]));
        // The same streams for all runs: Scala's Console takes them once.
        List<ByteArrayOutputStream> written = List.of(new ByteArrayOutputStream(), new ByteArrayOutputStream());
        System.setOut(new PrintStream(written.get(0), true));
        System.setErr(new PrintStream(written.get(1), true));
        while (true) {
            String[] command;
            try {
                command = new String[commands.readInt()];
            } catch (EOFException end) {
                return;
            }
            for (int i = 0; i < command.length; i++) command[i] = commands.readUTF();
            results.writeInt(run(command));
            System.out.flush();
            System.err.flush();
            for (ByteArrayOutputStream stream : written) {
                results.writeInt(stream.size());
                stream.writeTo(results);
                stream.reset();
            }
            results.flush();
        }
    }

    /** The status with which a process of its own would end. */
    private static int run(String[] command) throws Exception {
        CompletableFuture<Integer> ended = new CompletableFuture<>();
        List<Runnable> hooks = new CopyOnWriteArrayList<>();
        // A call of exit never returns, and no finally block runs.
        Exit.Procedure exit = (status, message) -> {
            ended.complete(status);
            while (true) LockSupport.park();
        };
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        Thread thread = new Thread(() -> {
            try {
                MethodType type = MethodType.methodType(void.class, String[].class);
                MethodHandle main = MethodHandles.publicLookup().findStatic(Class.forName(command[0]), "main", type);
                main.invokeExact(java.util.Arrays.copyOfRange(command, 1, command.length));
                ended.complete(0);
            } catch (Throwable error) {
                System.err.print("Exception in thread \"main\" ");
                error.printStackTrace();
                ended.complete(1);
            }
        });
        thread.setDaemon(true);
        thread.start();
        int status = ended.get();
        hooks.forEach(Runnable::run);
        return status;
    }
}
