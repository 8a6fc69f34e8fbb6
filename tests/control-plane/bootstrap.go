package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// The cluster's Nodes: three, each in a zone of its own, so that spreading and anti-affinity have
// something to choose from, and each alone with room for ten thousand Pods.
const nodeCount = 3

var nodeCapacity = corev1.ResourceList{
	corev1.ResourceCPU:              resource.MustParse("4k"),
	corev1.ResourceMemory:           resource.MustParse("16Ti"),
	corev1.ResourceEphemeralStorage: resource.MustParse("100Ti"),
	corev1.ResourcePods:             resource.MustParse("10k"),
}

// client is the daemon's own, without a rate limit: it is never what a test measures.
func (in *instance) client() (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", in.kubeconfig(userDaemon))
	if err != nil {
		return nil, err
	}
	config.QPS, config.UserAgent = -1, "hotshoe-control-plane"
	config.ContentType = "application/vnd.kubernetes.protobuf"
	return kubernetes.NewForConfig(config)
}

// create creates the objects that a cluster of a cloud provider comes with. It may run again.
func (in *instance) create(ctx context.Context, client kubernetes.Interface) error {
	everything := []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}},
	}
	// The rules of kwok's own kustomize/rbac/role.yaml, without those for its custom resources.
	forKwok := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes", "pods", "events"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
		{APIGroups: []string{""}, Resources: []string{"nodes/status", "pods/status"}, Verbs: []string{"patch", "update"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"delete", "patch", "update"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"*"}},
	}
	steps := []func() error{
		func() error { return bind(ctx, client, "hotshoe:plain", userPlain, everything) },
		func() error { return bind(ctx, client, "hotshoe:kwok", userKwok, forKwok) },
		func() error {
			_, err := client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: "standard", Annotations: map[string]string{
					"storageclass.kubernetes.io/is-default-class": "true",
				}},
				Provisioner: "kubernetes.io/host-path",
			}, metav1.CreateOptions{})
			return err
		},
	}
	for number := range nodeCount {
		steps = append(steps, func() error {
			_, err := client.CoreV1().Nodes().Create(ctx, node(number), metav1.CreateOptions{})
			return err
		})
	}
	if in.Bare {
		steps = steps[:1]
	}
	for _, step := range steps {
		if err := step(); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

func bind(ctx context.Context, client kubernetes.Interface, role, user string, rules []rbacv1.PolicyRule) error {
	_, err := client.RbacV1().ClusterRoles().Create(ctx,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: rules}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	return err
}

func node(number int) *corev1.Node {
	name := fmt.Sprintf("kwok-node-%d", number)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
				corev1.LabelTopologyRegion: "local", corev1.LabelTopologyZone: fmt.Sprintf("local-%c", 'a'+number),
				"type": "kwok",
			},
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
		},
		Status: corev1.NodeStatus{Capacity: nodeCapacity, Allocatable: nodeCapacity},
	}
}

// awaitCluster waits for the work of the controllers: Nodes that kwok has made Ready and that are not
// tainted, and the ServiceAccount without which no Pod is admitted.
func (in *instance) awaitCluster(ctx context.Context, client kubernetes.Interface) error {
	if in.Bare {
		return await(ctx, "the default namespace", func() (string, bool) {
			_, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
			return fmt.Sprint(err), err == nil
		})
	}
	err := await(ctx, "the default ServiceAccount", func() (string, bool) {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return fmt.Sprint(err), err == nil
	})
	if err != nil {
		return err
	}
	return await(ctx, fmt.Sprintf("%d Ready Nodes", nodeCount), func() (string, bool) {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "type=kwok"})
		if err != nil {
			return err.Error(), false
		}
		ready := 0
		for _, node := range nodes.Items {
			for _, condition := range node.Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue && len(node.Spec.Taints) == 0 {
					ready++
				}
			}
		}
		return fmt.Sprintf("%d are Ready and without a taint", ready), ready == nodeCount
	})
}

// await polls until the condition holds or ctx ends, and then reports what it saw last.
func await(ctx context.Context, what string, condition func() (seen string, ok bool)) error {
	for {
		seen, ok := condition()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return &problem{What: fmt.Sprintf("%s: not in time; last seen: %s", what, seen)}
		case <-time.After(25 * time.Millisecond):
		}
	}
}
