"""PyFlink, SQL: no Python runs in it. One window that holds all of time keeps count and sum of each key."""

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.table import Schema, StreamTableEnvironment

from benchmarks.peers.jobs.flink import configuration, free_port, watch
from benchmarks.peers.measuring import job_of_command_line, tell
from benchmarks.peers.records import SQL_KEY, SQL_VALUE, check


def main() -> None:
    """Run the job to its end."""
    job, port = job_of_command_line(), free_port()
    environment = StreamExecutionEnvironment.get_execution_environment(configuration(job, port))
    tables = StreamTableEnvironment.create(environment)
    results = job.folder / "results"
    numbers = environment.from_source(
        NumberSequenceSource(0, job.records - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    schema = (
        Schema.new_builder()
        .column("f0", "BIGINT")
        .column_by_expression("k", SQL_KEY.format(keys=job.keys).replace("n %", "f0 %"))
        .column_by_expression("v", SQL_VALUE.replace("n %", "f0 %"))
        .column_by_expression("moment", "TO_TIMESTAMP_LTZ(f0 - f0, 3)")
        .watermark("moment", "moment")
        .build()
    )
    tables.create_temporary_view("numbers", numbers, schema)
    tables.execute_sql(f"""
        CREATE TABLE results (k BIGINT, c BIGINT, s BIGINT)
        WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{results.as_uri()}')""")
    ran = tables.execute_sql("""
        INSERT INTO results SELECT k, COUNT(*), SUM(v)
        FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(moment), INTERVAL '1' DAY))
        GROUP BY window_start, window_end, k""")
    watch(job, ran.get_job_client(), port)
    rows = (line.split(",") for file in results.iterdir() for line in file.read_text(encoding="utf-8").splitlines())
    check({int(key): (int(count), int(total)) for key, count, total in rows}, job.records, job.keys)
    tell("exact")


if __name__ == "__main__":
    main()
