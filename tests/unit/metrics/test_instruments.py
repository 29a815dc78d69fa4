"""Rendered metrics are read back by Prometheus's own parser, whatever the labels."""

from math import isclose

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from holdfast.metrics.instruments import MAX_SERIES, OTHER_LABEL, Histogram, MetricFamily, Number, render_metrics

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def counter(*labels: str, meaning: str = "Things.") -> MetricFamily[Number]:
    return MetricFamily("things_total", meaning, kind="counter", labels=labels, make=Number)


@given(values=st.dictionaries(TEXTS, st.floats(min_value=0, max_value=1e12), max_size=5), meaning=TEXTS)
def test_a_counter_is_read_back_by_the_prometheus_parser(values: dict[str, float], meaning: str) -> None:
    things = counter("name", meaning=f"x{meaning}")
    for name, value in values.items():
        things.of(name).add(value)
    (family,) = text_string_to_metric_families(render_metrics([things]))
    assert family.type == "counter"
    assert {sample.labels["name"]: sample.value for sample in family.samples} == values


@given(values=st.lists(st.floats(min_value=0, max_value=1000)))
def test_a_histogram_counts_each_value_in_every_bucket_that_it_does_not_exceed(values: list[float]) -> None:
    bounds = (0.5, 1, 100)
    things = MetricFamily("seconds", "Seconds.", kind="histogram", make=lambda: Histogram(bounds))
    for value in values:
        things.of().observe(value)
    things.of()
    (family,) = text_string_to_metric_families(render_metrics([things]))
    read = {(sample.name, sample.labels.get("le")): sample.value for sample in family.samples}
    assert read["seconds_count", None] == read["seconds_bucket", "+Inf"] == len(values)
    assert isclose(read["seconds_sum", None], sum(values))
    assert [read["seconds_bucket", le] for le in ("0.5", "1", "100")] == [
        sum(value <= bound for value in values) for bound in bounds
    ]


def test_the_same_labels_give_the_same_instrument() -> None:
    things = counter("name", "kind")
    assert things.of("a", "b") is things.of("a", "b")
    assert things.of("a", "b") is not things.of("a", "c")


def test_label_values_beyond_the_limit_are_counted_together() -> None:
    things = counter("name", "kind")
    for index in range(MAX_SERIES + 50):
        things.of(f"name {index}", "seen").add()
    things.of("name 3", "missed").add()
    series = {labels: number.value for labels, number in things}
    assert len(series) == MAX_SERIES + 2
    assert series[OTHER_LABEL, "seen"] == 50
    assert series["name 3", "missed"] == 1


def test_a_family_without_labels_is_exported_from_the_start() -> None:
    things = counter()
    things.of()
    assert render_metrics([things]) == "# HELP things_total Things.\n# TYPE things_total counter\nthings_total 0\n"
