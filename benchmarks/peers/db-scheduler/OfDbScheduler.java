import com.github.kagkarlsson.scheduler.Scheduler;
import com.github.kagkarlsson.scheduler.SchedulerName;
import com.github.kagkarlsson.scheduler.serializer.Serializer;
import com.github.kagkarlsson.scheduler.task.helper.Tasks;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.URLDecoder;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** db-scheduler: OfDbScheduler open DSN | work DSN SHEET. */
public class OfDbScheduler {
  static final int THREADS = 20;
  static final long EVERY_MS = 50;
  static final Pattern DSN =
      Pattern.compile("postgres(?:ql)?://(?:([^:@/]*)(?::([^@/]*))?@)?([^:/?]*)(?::(\\d+))?/([^?]*)(?:\\?(.*))?");
  // The table and the indexes that db-scheduler's documentation recommends.
  static final String[] TABLE = {
    "create table scheduled_tasks (task_name text not null, task_instance text not null, task_data bytea,"
        + " execution_time timestamptz, picked boolean not null, picked_by text, last_success timestamptz,"
        + " last_failure timestamptz, consecutive_failures int, last_heartbeat timestamptz, version bigint not null,"
        + " priority smallint, state text, primary key (task_name, task_instance))",
    "create index execution_time_idx on scheduled_tasks (execution_time)",
    "create index last_heartbeat_idx on scheduled_tasks (last_heartbeat)",
    "create index priority_execution_time_idx on scheduled_tasks (priority desc, execution_time asc)",
  };

  public static void main(String[] args) throws Exception {
    try (HikariDataSource database = databaseAt(args[1])) {
      switch (args[0]) {
        case "open" -> open(database);
        case "work" -> work(database, Path.of(args[2]));
        default -> throw new IllegalArgumentException(args[0]);
      }
    }
  }

  static void open(HikariDataSource database) throws SQLException {
    try (var connection = database.getConnection(); var statement = connection.createStatement()) {
      for (String text : TABLE) {
        statement.execute(text);
      }
    }
  }

  static void work(HikariDataSource database, Path path) throws IOException {
    Sheet sheet = new Sheet(path);
    var fire = Tasks.oneTime("fire", Double.class).execute((instance, context) -> sheet.note(instance.getData()));
    // The numbers of threads and the limits come from a benchmark in db-scheduler's documentation, on machines with two
    // cores.
    Scheduler scheduler =
        Scheduler.create(database, fire)
            .threads(THREADS)
            .pollUsingLockAndFetch(4.0, 20.0)
            .pollingInterval(Duration.ofMillis(100))
            .schedulerName(new SchedulerName.Fixed("worker-" + ProcessHandle.current().pid()))
            .serializer(new Doubles())
            .build();
    scheduler.start();
    System.out.println("ready");
    // The benchmark stops this program by closing its standard input.
    System.in.transferTo(OutputStream.nullOutputStream());
    scheduler.stop();
    sheet.close();
  }

  static HikariDataSource databaseAt(String dsn) {
    Matcher read = DSN.matcher(dsn);
    if (!read.matches()) {
      throw new IllegalArgumentException("the DSN is no postgresql:// URL");
    }
    Map<String, String> options = new HashMap<>();
    for (String option : read.group(6) == null ? new String[0] : read.group(6).split("&")) {
      String[] parts = option.split("=", 2);
      options.put(parts[0], URLDecoder.decode(parts[1], StandardCharsets.UTF_8));
    }
    String host = options.getOrDefault("host", read.group(3));
    String port = options.getOrDefault("port", read.group(4) == null ? "5432" : read.group(4));
    HikariConfig config = new HikariConfig();
    config.setMaximumPoolSize(THREADS + 5);
    config.setUsername(read.group(1));
    config.setPassword(read.group(2));
    if (host.startsWith("/")) {
      config.setJdbcUrl("jdbc:postgresql://localhost/" + read.group(5));
      config.addDataSourceProperty("socketFactory", "org.newsclub.net.unix.AFUNIXSocketFactory$FactoryArg");
      config.addDataSourceProperty("socketFactoryArg", host + "/.s.PGSQL." + port);
      config.addDataSourceProperty("sslmode", "disable");
    } else {
      config.setJdbcUrl("jdbc:postgresql://" + host + ":" + port + "/" + read.group(5));
    }
    return new HikariDataSource(config);
  }

  /** Reads the eight bytes that Postgres's float8send writes. */
  static class Doubles implements Serializer {
    @Override
    public byte[] serialize(Object data) {
      return ByteBuffer.allocate(Double.BYTES).putDouble((Double) data).array();
    }

    @Override
    public <T> T deserialize(Class<T> type, byte[] bytes) {
      return type.cast(ByteBuffer.wrap(bytes).getDouble());
    }
  }

  /** Records the due date and the firing of each timer: two doubles, seconds since 1970, appended to a file. */
  static class Sheet {
    private final OutputStream file;
    private final ConcurrentLinkedQueue<double[]> values = new ConcurrentLinkedQueue<>();
    private final ScheduledExecutorService writer = Executors.newSingleThreadScheduledExecutor();

    Sheet(Path path) throws IOException {
      file = Files.newOutputStream(path, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
      writer.scheduleAtFixedRate(this::flush, EVERY_MS, EVERY_MS, TimeUnit.MILLISECONDS);
    }

    void note(double due) {
      Instant now = Instant.now();
      values.add(new double[] {due, now.getEpochSecond() + now.getNano() / 1e9});
    }

    synchronized void flush() {
      var bytes = new ByteArrayOutputStream();
      ByteBuffer pair = ByteBuffer.allocate(2 * Double.BYTES).order(ByteOrder.nativeOrder());
      for (double[] next = values.poll(); next != null; next = values.poll()) {
        bytes.writeBytes(pair.clear().putDouble(next[0]).putDouble(next[1]).array());
      }
      try {
        bytes.writeTo(file);
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }

    void close() throws IOException {
      writer.shutdown();
      flush();
      file.close();
    }
  }
}
