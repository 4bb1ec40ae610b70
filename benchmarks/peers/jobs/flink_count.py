"""PyFlink, DataStream: a number sequence in Java, then Python inside the JVM: key, count and sum in keyed state."""

from typing import Any

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ValueStateDescriptor

from benchmarks.peers.jobs.flink import configuration, free_port, watch
from benchmarks.peers.measuring import job_of_command_line, tell
from benchmarks.peers.records import PERIOD, VALUES, check, keys_and_values

END_OF_TIME = 2**63 - 1


class Count(KeyedProcessFunction):  # type: ignore[misc]
    """Count and sum of each key, written to a file when the stream has ended."""

    def __init__(self, results: str) -> None:
        self._results = results

    def open(self, runtime_context: Any) -> None:
        """Find the state."""
        self._state = runtime_context.get_state(
            ValueStateDescriptor("totals", Types.TUPLE([Types.LONG(), Types.LONG()]))
        )

    def process_element(self, value: int, ctx: Any) -> None:
        """Count one record."""
        totals = self._state.value()
        if totals is None:
            totals = (0, 0)
            ctx.timer_service().register_event_time_timer(END_OF_TIME)
        self._state.update((totals[0] + 1, totals[1] + value % PERIOD % VALUES))

    def on_timer(self, _timestamp: int, ctx: Any) -> Any:
        """Tell the result: the last watermark comes when all records have."""
        count, total = self._state.value()
        with open(self._results, "a", encoding="utf-8") as file:  # noqa: PTH123 - the name is pickled
            file.write(f"{ctx.get_current_key()} {count} {total}\n")
        return ()


def main() -> None:
    """Run the job to its end."""
    job, port = job_of_command_line(), free_port()
    environment = StreamExecutionEnvironment.get_execution_environment(configuration(job, port))
    column, _ = keys_and_values(job.keys)
    results = job.folder / "results"
    numbers = environment.from_source(
        NumberSequenceSource(0, job.records - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    counted = numbers.key_by(lambda n: column[n % PERIOD], Types.LONG()).process(Count(str(results)), Types.LONG())
    counted.print()
    watch(job, environment.execute_async("count"), port)
    lines = (map(int, line.split()) for line in results.read_text(encoding="utf-8").splitlines())
    check({key: (count, total) for key, count, total in lines}, job.records, job.keys)
    tell("exact")


if __name__ == "__main__":
    main()
