"""`k8s/monitoring`: what kustomize makes of it, and that it fits what KubeRay makes."""

import json

from tests.k8s.manifests import K8S, build


def monitoring():
    return {one["kind"]: one for one in build(K8S / "monitoring")}


def test_it_has_alerts_a_dashboard_that_grafana_finds_and_where_prometheus_looks():
    found = monitoring()
    assert found.keys() == {"PrometheusRule", "PodMonitor", "ConfigMap"}
    assert found["ConfigMap"]["metadata"]["labels"] == {"grafana_dashboard": "1"}
    assert json.loads(found["ConfigMap"]["data"]["rayshot.json"])["panels"]


def test_pods_of_ray_are_looked_at_by_the_port_and_label_that_kuberay_gives_each():
    monitor = monitoring()["PodMonitor"]["spec"]
    assert monitor["selector"]["matchExpressions"] == [{"key": "ray.io/node-type", "operator": "Exists"}]
    assert [endpoint["port"] for endpoint in monitor["podMetricsEndpoints"]] == ["metrics"]
