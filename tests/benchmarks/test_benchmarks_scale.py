"""What a coordinator does is counted, and is linear: here in small, in the page up to 1,000."""

from benchmarks.scale import JOIN, SIZES_SHORT, SNAPSHOT, count, report_of


def test_twice_as_many_actors_are_no_more_than_twice_the_work_and_a_join_stays_as_it_is():
    report = report_of(count(SIZES_SHORT), SIZES_SHORT)
    assert [figure.name for figure in report.figures if not figure.met] == []
    assert all(report.samples(SNAPSHOT))
    assert all(report.samples(JOIN))
