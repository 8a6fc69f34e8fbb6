"""The NginxServer operator as kopf's users write it: what `plugins/nginx-python` is held against."""

import kopf
import kubernetes

INSTANCE = "app.kubernetes.io/instance"


@kopf.on.startup()
def configure(settings, **_):
    # Without kopf's Event for each handler: fewer writes, in its favour.
    settings.posting.enabled = False


@kopf.on.create("web.example.com", "v1", "nginxservers")
def create(spec, name, namespace, patch, **_):
    labels = {"app": "nginx", INSTANCE: name}
    container = {
        "name": "nginx",
        "image": spec.get("image", "nginx:latest"),
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "securityContext": {"allowPrivilegeEscalation": False},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": spec.get("replicas", 1),
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"automountServiceAccountToken": False, "containers": [container]},
            },
        },
    }
    kopf.adopt(deployment)
    kubernetes.client.AppsV1Api().create_namespaced_deployment(namespace, deployment)
    patch.status["availableReplicas"] = 0
    patch.status["podNames"] = []
