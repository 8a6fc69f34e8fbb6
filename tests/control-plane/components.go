package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	etcd                  = "etcd"
	kubeAPIServer         = "kube-apiserver"
	kubeControllerManager = "kube-controller-manager"
	kubeScheduler         = "kube-scheduler"
	kwok                  = "kwok"
	etcdPeer              = "etcd-peer" // a port only: etcd insists on one, even alone
)

// componentNames are all components, in the order in which they depend on each other.
var componentNames = []string{etcd, kubeAPIServer, kubeControllerManager, kubeScheduler, kwok}

// wanted are the components of this instance: a bare one is a store and a server.
func (in *instance) wanted() []string {
	if in.Bare {
		return componentNames[:2]
	}
	return componentNames
}

// Room for a thousand Services and Pods many times over; neither range exists outside the API.
const (
	serviceRange = "10.96.0.0/12"
	podRange     = "10.128.0.1/12"
)

var firstServiceIP = net.IPv4(10, 96, 0, 1)

// command is the process of a component, ready to be started.
func (in *instance) command(name string) (*exec.Cmd, error) {
	binary, err := in.binary(name)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, in.arguments(name)...)
	cmd.Args[0] = name
	cmd.Dir = in.dir
	// Nothing of the user's environment or home reaches a component: no proxy for loopback, no
	// ~/.kwok/kwok.yaml. So a run is the same for everyone.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + in.path("config"), "TMPDIR=/tmp"}
	log, err := os.OpenFile(in.log(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	return cmd, nil
}

// binary returns this very binary for all components but kwok, unless the user provides other binaries
// of etcd and kube-apiserver.
func (in *instance) binary(name string) (string, error) {
	if in.Assets != "" {
		return in.existing(filepath.Join(in.Assets, name), "point KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver, or unset it")
	}
	self, err := os.Executable()
	if err != nil || name != kwok {
		return self, err
	}
	return in.existing(filepath.Join(filepath.Dir(self), "kwok"), "build it with `tests/control-plane/build.sh`")
}

func (in *instance) existing(path, next string) (string, error) {
	if _, err := exec.LookPath(path); err != nil {
		return "", &problem{What: "a binary is missing", To: path, Next: next}
	}
	return path, nil
}

func (in *instance) arguments(name string) []string {
	port := fmt.Sprint(in.Ports[name])
	serving := []string{"--tls-cert-file=" + in.pki("component.crt"), "--tls-private-key-file=" + in.pki("component.key")}
	// The deciding components: they serve their health and metrics, and elect nobody (there is
	// one of each). The client limits are raised so that a test measures the host, not them.
	controller := func(user string) []string {
		return append(serving, "--bind-address=127.0.0.1", "--secure-port="+port, "--leader-elect=false", "--profiling=false",
			"--authentication-kubeconfig="+in.kubeconfig(user), "--authorization-kubeconfig="+in.kubeconfig(user))
	}
	switch name {
	case etcd:
		url, peer := "https://"+address(in.Ports[etcd]), "https://"+address(in.Ports[etcdPeer])
		return []string{
			"--name=hotshoe", "--data-dir=" + in.path("etcd"),
			"--listen-client-urls=" + url, "--advertise-client-urls=" + url,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=hotshoe=" + peer,
			"--cert-file=" + in.pki("etcd.crt"), "--key-file=" + in.pki("etcd.key"),
			"--client-cert-auth", "--trusted-ca-file=" + in.pki("etcd-ca.crt"),
			"--peer-cert-file=" + in.pki("etcd.crt"), "--peer-key-file=" + in.pki("etcd.key"),
			"--peer-client-cert-auth", "--peer-trusted-ca-file=" + in.pki("etcd-ca.crt"),
			"--unsafe-no-fsync", "--quota-backend-bytes=8589934592", "--log-level=warn",
		}
	case kubeAPIServer:
		arguments := []string{
			"--bind-address=127.0.0.1", "--secure-port=" + port,
			"--etcd-servers=https://" + address(in.Ports[etcd]), "--etcd-cafile=" + in.pki("etcd-ca.crt"),
			"--etcd-certfile=" + in.pki("etcd-client.crt"), "--etcd-keyfile=" + in.pki("etcd-client.key"),
			"--tls-cert-file=" + in.pki("kube-apiserver.crt"), "--tls-private-key-file=" + in.pki("kube-apiserver.key"),
			"--client-ca-file=" + in.path("ca.crt"), "--authorization-mode=Node,RBAC",
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + in.pki("service-account.pub"),
			"--service-account-signing-key-file=" + in.pki("service-account.key"),
			"--service-cluster-ip-range=" + serviceRange, "--allow-privileged=true", "--profiling=false",
			// Without it a graceful stop waits a minute for the watches of clients that stay connected.
			"--shutdown-send-retry-after=true",
			// An Endpoints object may not name loopback, so the `kubernetes` Service has none.
			"--endpoint-reconciler-type=none", "--advertise-address=127.0.0.1",
			"--audit-policy-file=" + in.config("audit.yaml"), "--audit-log-path=" + in.path("audit.log"),
			"--audit-log-maxsize=0", // never rotated: tests count from a byte offset
		}
		if in.Bare { // nobody makes the ServiceAccounts this plugin insists on
			arguments = append(arguments, "--disable-admission-plugins=ServiceAccount")
		}
		return arguments
	case kubeControllerManager:
		return append(controller(userManager),
			"--kubeconfig="+in.kubeconfig(userManager), "--kube-api-qps=300", "--kube-api-burst=600",
			"--root-ca-file="+in.path("ca.crt"), "--service-account-private-key-file="+in.pki("service-account.key"),
			"--cluster-signing-cert-file="+in.path("ca.crt"), "--cluster-signing-key-file="+in.pki("ca.key"),
			"--use-service-account-credentials=true", "--enable-hostpath-provisioner=true", "--allocate-node-cidrs=false",
		)
	case kubeScheduler:
		return append(controller(userScheduler), "--config="+in.config("scheduler.yaml"))
	case kwok:
		return []string{
			"--kubeconfig=" + in.kubeconfig(userKwok), "--config=" + in.config("kwok.yaml"),
			"--v=WARN", "--manage-all-nodes=true", "--cidr=" + podRange, "--node-ip=127.0.0.1", "--server-address=" + address(in.Ports[kwok]),
		}
	}
	panic("no component is called " + name)
}

// writeConfig fills DIR/config with the files the arguments name.
func (in *instance) writeConfig() error {
	stages, err := stagesYAML(in.Stages)
	if err != nil {
		return err
	}
	files := map[string]string{
		"audit.yaml": auditPolicy(),
		"kwok.yaml":  stages,
		"scheduler.yaml": fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 300, burst: 600}
leaderElection: {leaderElect: false}
`, in.kubeconfig(userScheduler)),
	}
	for name, content := range files {
		if err := os.WriteFile(in.config(name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// checkComponent returns an error that lists the valid names if this one is not among them.
func checkComponent(name string, in *instance) error {
	if slices.Contains(in.wanted(), name) {
		return nil
	}
	return &problem{What: "this control plane has no component " + name, To: in.dir, Next: "name one of " + strings.Join(in.wanted(), ", "), Exit: exitUsage}
}
