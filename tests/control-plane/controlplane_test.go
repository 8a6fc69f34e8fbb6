// These tests run the binaries that build.sh made, on real control planes in temporary folders.
// They see the product as its users do: through its command line, kubectl and its files.
package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const timeout = 60 * time.Second // of a wait for a condition, on a machine that builds something else meanwhile

var (
	binaries string    // target/control-plane/bin
	shared   *instance // the control plane that most tests use, each in a namespace of its own
)

type instance struct {
	Dir             string
	Running, Ready  bool
	Server          string
	Kubeconfig      string
	PlainKubeconfig string
	CA              string
	AuditLog        string
	Kubectl         string
	DaemonPID       int
	Components      []struct {
		Name, Status string
		PID, Port    int
	}
	took time.Duration
}

func TestMain(m *testing.M) {
	here, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	binaries = filepath.Join(here, "..", "..", "target", "control-plane", "bin")
	if _, err := os.Stat(filepath.Join(binaries, "control-plane")); err != nil {
		fmt.Fprintln(os.Stderr, "the control plane is not built\n  where:", binaries, "\n  next:  run tests/control-plane/build.sh")
		os.Exit(1)
	}
	folder, err := os.MkdirTemp("", "control-plane-test-")
	if err != nil {
		panic(err)
	}
	shared, err = up(filepath.Join(folder, "shared"), nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if out, err := command("down", "--dir", shared.Dir).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "down: %s\n", out)
		code = 1
	}
	if err := os.Remove(folder); err != nil { // refuses when something is left in it
		fmt.Fprintln(os.Stderr, "down left something behind:", err)
		code = 1
	}
	os.Exit(code)
}

func TestItIsReadyWithEverythingATestNeeds(t *testing.T) {
	t.Logf("ready in %s", shared.took)
	if !shared.Ready || len(shared.Components) != 5 {
		t.Fatalf("not ready: %+v", shared)
	}
	if version := shared.kubectl(t, "get", "--raw", "/version"); !strings.Contains(version, `"gitVersion": "v1.36.3"`) {
		t.Fatal(version)
	}
	equal(t, "True True True", shared.kubectl(t, "get", "nodes", "-o", `jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`))
	equal(t, "default", shared.kubectl(t, "get", "serviceaccount", "default", "-n", "default", "-o", "jsonpath={.metadata.name}"))
	equal(t, "kubernetes.io/host-path", shared.kubectl(t, "get", "storageclass", "standard", "-o", "jsonpath={.provisioner}"))
}

func TestUpTwiceSaysThatItRunsAndChangesNothing(t *testing.T) {
	out, err := command("up", "--dir", shared.Dir).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("already runs")) || !bytes.Contains(out, []byte("export KUBECONFIG="+shared.Kubeconfig)) {
		t.Fatalf("%v: %s", err, out)
	}
	now := status(t, shared.Dir)
	if now.DaemonPID != shared.DaemonPID {
		t.Fatalf("the daemon was %d and is %d", shared.DaemonPID, now.DaemonPID)
	}
}

func TestADeploymentBecomesReadyPodsAndItsDeletionIsGarbageCollected(t *testing.T) {
	t.Parallel()
	k := shared.namespace(t, "deployment")
	k("create", "deployment", "web", "--image=web", "--replicas=5")
	k("wait", "deployment/web", "--for=jsonpath={.status.readyReplicas}=5", "--timeout=60s")
	equal(t, "ReplicaSet", k("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.ownerReferences[0].kind}"))
	k("delete", "deployment", "web", "--wait=false")
	eventually(t, "nothing is left of the Deployment", func() (string, bool) {
		left := k("get", "deployments,replicasets,pods", "-o", "name")
		return left, left == ""
	})
}

func TestANamespaceTerminatesWithAllThatIsInIt(t *testing.T) {
	t.Parallel()
	k := shared.namespace(t, "terminates")
	k("create", "deployment", "web", "--image=web", "--replicas=2")
	k("create", "configmap", "settings")
	k("delete", "namespace", "terminates", "--timeout=60s")
	equal(t, "", k("get", "namespaces", "--field-selector=metadata.name=terminates", "-o", "name"))
}

func TestTheClaimsOfAStatefulSetBindAndTheirFoldersAreNotedForRemoval(t *testing.T) {
	t.Parallel()
	k := shared.namespace(t, "claims")
	k.apply(t, `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"db"},"spec":{"serviceName":"db","replicas":2,
		"selector":{"matchLabels":{"app":"db"}},
		"template":{"metadata":{"labels":{"app":"db"}},"spec":{"containers":[{"name":"db","image":"db","volumeMounts":[{"name":"data","mountPath":"/data"}]}]}},
		"volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}]}}`)
	k("wait", "statefulset/db", "--for=jsonpath={.status.readyReplicas}=2", "--timeout=60s")
	equal(t, "Bound Bound", k("get", "pvc", "-o", "jsonpath={.items[*].status.phase}"))
	volume := k("get", "pvc", "data-db-0", "-o", "jsonpath={.spec.volumeName}")
	path := k("get", "pv", volume, "-o", "jsonpath={.spec.hostPath.path}")
	eventually(t, "the volume is noted", func() (string, bool) {
		noted, err := os.ReadFile(filepath.Join(shared.Dir, "state", "volumes"))
		return fmt.Sprint(string(noted), err), strings.Contains(string(noted), path)
	})
}

func TestAServiceAccountMayOnlyWhatItIsBoundTo(t *testing.T) {
	t.Parallel()
	k := shared.namespace(t, "accounts")
	k("create", "serviceaccount", "robot")
	as := func() (string, error) {
		token := k("create", "token", "robot", "--audience=https://kubernetes.default.svc")
		out, err := exec.Command(shared.Kubectl, "--kubeconfig=/dev/null", "--server="+shared.Server, "--certificate-authority="+shared.CA,
			"--token="+token, "get", "pods", "-n", "accounts").CombinedOutput()
		return string(out), err
	}
	if out, err := as(); err == nil || !strings.Contains(out, `"system:serviceaccount:accounts:robot" cannot list resource "pods"`) {
		t.Fatalf("unbound: %v: %s", err, out)
	}
	k("create", "rolebinding", "robot", "--clusterrole=view", "--serviceaccount=accounts:robot")
	eventually(t, "the bound account may read", func() (string, bool) {
		out, err := as()
		return out, err == nil
	})
}

func TestPlainMayDoEverythingAsAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	k := kubectl{shared, shared.PlainKubeconfig, ""}.bind(t)
	equal(t, `plain ["system:authenticated"]`, k("auth", "whoami", "-o", `jsonpath={.status.userInfo.username} {.status.userInfo.groups}`))
	equal(t, "yes", k("auth", "can-i", "*", "*", "--all-namespaces"))
}

func TestPodSecurityIsEnforced(t *testing.T) {
	t.Parallel()
	k := shared.namespace(t, "secure")
	k("label", "namespace", "secure", "pod-security.kubernetes.io/enforce=restricted")
	out, err := shared.tryKubectl("run", "root", "--image=root", "-n", "secure")
	if err == nil || !strings.Contains(out, "violates PodSecurity") {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestTheAuditLogCountsEveryRequestOfAUserOnce(t *testing.T) {
	t.Parallel()
	mark := audit(t, "--user", "plain").Mark
	plain := kubectl{shared, shared.PlainKubeconfig, ""}.bind(t)
	for number := range 3 {
		plain("create", "configmap", fmt.Sprintf("counted-%d", number), "-n", "default")
	}
	plain("get", "configmap", "counted-0", "-n", "default")
	eventually(t, "3 creates and 1 get are counted", func() (string, bool) {
		var created, got int
		report := audit(t, "--user", "plain", "--since", strconv.FormatInt(mark, 10))
		for _, c := range report.Counts {
			switch {
			case c.Verb == "create" && c.Resource == "configmaps" && c.Code == 201:
				created = c.Count
			case c.Verb == "get" && c.Resource == "configmaps" && c.Code == 200:
				got = c.Count
			}
		}
		return fmt.Sprintf("%+v", report), created == 3 && got == 1
	})
	// What Rust tests rely on when they read the log themselves.
	log, err := os.ReadFile(shared.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(log, []byte("\n"))
	for _, line := range lines[:len(lines)-1] {
		var event struct {
			Kind, Level, Stage, Verb string
			User                     struct{ Username string }
		}
		if err := json.Unmarshal(line, &event); err != nil || event.Kind != "Event" || event.Level != "Metadata" || event.Stage != "ResponseComplete" {
			t.Fatalf("%v: %s", err, line)
		}
		if event.User.Username == "system:kube-scheduler" && event.Verb == "list" {
			t.Fatalf("a read of the control plane itself: %s", line)
		}
	}
}

// Not parallel, like the next test: both stop components that all tests use.
func TestAllComponentsReconnectAfterAnOutageOfTheAPIServer(t *testing.T) {
	k := shared.namespace(t, "reconnect")
	for _, how := range [][]string{{}, {"--kill"}} {
		control(t, append([]string{"stop", "kube-apiserver", "--dir", shared.Dir}, how...)...)
		if now := status(t, shared.Dir); now.Ready || now.component("kube-apiserver").Status != "stopped" {
			t.Fatalf("%+v", now)
		}
		if out, err := shared.tryKubectl("get", "nodes"); err == nil || !strings.Contains(out, "refused") {
			t.Fatalf("it still answers: %s", out)
		}
		control(t, "start", "kube-apiserver", "--dir", shared.Dir)
		if before, now := shared.component("kube-apiserver"), status(t, shared.Dir).component("kube-apiserver"); now.Port != before.Port || now.PID == before.PID {
			t.Fatalf("before %+v, now %+v", before, now)
		}
		name := "web" + strings.Join(how, "")
		k("create", "deployment", name, "--image=web", "--replicas=3")
		k("wait", "deployment/"+name, "--for=jsonpath={.status.readyReplicas}=3", "--timeout=60s")
	}
}

func TestEachComponentCanBeStoppedAndStarted(t *testing.T) {
	k := shared.namespace(t, "components")
	for _, name := range []string{"kube-controller-manager", "kube-scheduler", "kwok", "etcd"} {
		control(t, "stop", name, "--dir", shared.Dir)
		control(t, "stop", name, "--dir", shared.Dir) // again, which changes nothing
		if now := status(t, shared.Dir); now.component(name).Status != "stopped" {
			t.Fatalf("%+v", now)
		}
		control(t, "start", name, "--dir", shared.Dir)
		eventually(t, "the API server answers after "+name, func() (string, bool) {
			out, err := shared.tryKubectl("get", "--raw", "/readyz")
			return out, err == nil
		})
		k("create", "deployment", name, "--image=web", "--replicas=2")
		k("wait", "deployment/"+name, "--for=jsonpath={.status.readyReplicas}=2", "--timeout=60s")
	}
}

func TestAnotherControlPlaneRunsBesideAndDownClearsAwayAfterItsDaemonWasKilled(t *testing.T) {
	// A folder too deep for a unix socket in it.
	dir := filepath.Join(t.TempDir(), strings.Repeat("deep", 20), strings.Repeat("er", 20))
	other := mustUp(t, dir)
	k := kubectl{other, other.Kubeconfig, ""}.bind(t)
	k("create", "namespace", "only-here")
	if out, err := shared.tryKubectl("get", "namespace", "only-here"); err == nil {
		t.Fatalf("one control plane sees the other's: %s", out)
	}
	if err := syscall.Kill(other.DaemonPID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	other.awaitNothing(t)
	if now := status(t, dir); now.Running {
		t.Fatalf("%+v", now)
	}
	control(t, "down", "--dir", dir)
	control(t, "down", "--dir", dir) // again, which changes nothing
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%s is left: %v", dir, err)
	}
}

func TestItEndsAndRemovesItsFolderWhenItsOwnerEnds(t *testing.T) {
	t.Parallel()
	owner := exec.Command("sleep", "600")
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	other := mustUp(t, filepath.Join(t.TempDir(), "owned"), "--bare", "--owner-pid", strconv.Itoa(owner.Process.Pid))
	_ = owner.Process.Kill()
	_ = owner.Wait()
	other.awaitNothing(t)
	eventually(t, "the folder is gone", func() (string, bool) {
		_, err := os.Stat(other.Dir)
		return fmt.Sprint(err), errors.Is(err, os.ErrNotExist)
	})
}

func TestDownEndsEveryProcessAndFreesEveryPort(t *testing.T) {
	t.Parallel()
	other := mustUp(t, filepath.Join(t.TempDir(), "short"), "--stages", "general")
	control(t, "down", "--dir", other.Dir)
	if left := other.left(); left != "" {
		t.Fatal(left)
	}
	if _, err := os.Stat(other.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%s is left: %v", other.Dir, err)
	}
}

func TestABareOneRunsTheBinariesOfKubebuilderAssetsAndNothingElse(t *testing.T) {
	assets := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if err := os.Symlink(filepath.Join(binaries, "control-plane"), filepath.Join(assets, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KUBEBUILDER_ASSETS", assets)
	other := mustUp(t, filepath.Join(t.TempDir(), "bare"), "--bare")
	if len(other.Components) != 2 {
		t.Fatalf("%+v", other.Components)
	}
	binary, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", other.component("kube-apiserver").PID))
	if err != nil || !bytes.HasPrefix(binary, []byte("kube-apiserver\x00")) {
		t.Fatalf("%v: %q", err, binary)
	}
	k := kubectl{other, other.PlainKubeconfig, ""}.bind(t)
	k("create", "configmap", "settings")
	k("run", "pod", "--image=pod")
	control(t, "down", "--dir", other.Dir)
}

func TestAStartThatFailsShowsTheLogAndLeavesNothing(t *testing.T) {
	t.Parallel()
	assets := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver"} {
		script := "#!/bin/sh\necho the " + name + " of this test is broken >&2\nsleep 0.2\nexit 7\n"
		if err := os.WriteFile(filepath.Join(assets, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "broken")
	cmd := command("up", "--bare", "--dir", dir)
	cmd.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+assets)
	out, err := cmd.CombinedOutput()
	for _, part := range []string{"of this test is broken", "exit status 7", "where:", "next:"} {
		if err == nil || !bytes.Contains(out, []byte(part)) {
			t.Fatalf("%q is missing: %v: %s", part, err, out)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%s is left: %v", dir, err)
	}
}

func TestAFolderWithForeignFilesIsNeverTouched(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"up", "down"} {
		var exit *exec.ExitError
		if out, err := command(verb, "--dir", dir).CombinedOutput(); !errors.As(err, &exit) || exit.ExitCode() != 2 {
			t.Fatalf("%s: %v: %s", verb, err, out)
		}
	}
	if _, err := os.Stat(precious); err != nil {
		t.Fatal(err)
	}
}

func TestEveryCommandHasAnExampleAndWrongOnesSayWhatToDo(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"up", "down", "status", "start", "stop", "audit"} {
		help, err := command(verb, "--help").CombinedOutput()
		if err != nil || !bytes.Contains(help, []byte("Examples:\n  ")) || !bytes.Contains(help, []byte("Exit codes:")) {
			t.Errorf("%s: %v: %s", verb, err, help)
		}
		var exit *exec.ExitError
		wrong, err := command(verb, "--nonsense").CombinedOutput()
		if !errors.As(err, &exit) || exit.ExitCode() != 2 || !bytes.Contains(wrong, []byte("next:")) {
			t.Errorf("%s: %v: %s", verb, err, wrong)
		}
	}
}

func TestTheGeneralStagesAreThoseOfTheKwokModule(t *testing.T) {
	t.Parallel()
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok").Output()
	if err != nil {
		t.Fatal(err)
	}
	ours, err := os.ReadFile("stages/pod-general.yaml")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(module)), "kustomize/stage/pod/general/pod-*.yaml"))
	if err != nil || len(theirs) != bytes.Count(ours, []byte("kind: Stage")) {
		t.Fatalf("%v: %v", err, theirs)
	}
	for _, path := range theirs {
		if stage, err := os.ReadFile(path); err != nil || !bytes.Contains(ours, stage) {
			t.Errorf("%s differs: %v", path, err)
		}
	}
}

// command is a call of the binary.
func command(arguments ...string) *exec.Cmd {
	return exec.Command(filepath.Join(binaries, "control-plane"), arguments...)
}

func control(t *testing.T, arguments ...string) {
	t.Helper()
	began := time.Now()
	if out, err := command(arguments...).CombinedOutput(); err != nil {
		t.Fatalf("control-plane %s: %v: %s", strings.Join(arguments, " "), err, out)
	}
	t.Logf("%s %s: %s", arguments[0], arguments[1], time.Since(began).Round(10*time.Millisecond))
}

// up starts a control plane that does not outlive this test, whatever ends it.
func up(dir string, arguments []string) (*instance, error) {
	began := time.Now()
	cmd := command(append([]string{"up", "--owner-pid", strconv.Itoa(os.Getpid()), "-o", "json", "--dir", dir}, arguments...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("up: %w: %s", err, stderr.String())
	}
	in := &instance{took: time.Since(began).Round(10 * time.Millisecond)}
	return in, json.Unmarshal(out, in)
}

func mustUp(t *testing.T, dir string, arguments ...string) *instance {
	t.Helper()
	in, err := up(dir, arguments)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command("down", "--dir", dir).Run() })
	t.Logf("ready in %s", in.took)
	return in
}

func status(t *testing.T, dir string) *instance {
	t.Helper()
	out, _ := command("status", "-o", "json", "--dir", dir).Output() // the exit code says what the JSON says
	in := &instance{}
	if err := json.Unmarshal(out, in); err != nil {
		t.Fatalf("status: %v: %s", err, out)
	}
	return in
}

func (in *instance) component(name string) (found struct {
	Name, Status string
	PID, Port    int
}) {
	for _, c := range in.Components {
		if c.Name == name {
			found = c
		}
	}
	return found
}

// left returns what is left of a control plane: its processes and its listeners.
func (in *instance) left() string {
	var left []string
	for _, c := range in.Components {
		if cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.PID)); err == nil && bytes.HasPrefix(cmdline, []byte(c.Name)) {
			left = append(left, fmt.Sprintf("%s is process %d", c.Name, c.PID))
		}
		if connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", c.Port)); err == nil {
			connection.Close()
			left = append(left, fmt.Sprintf("%s listens on %d", c.Name, c.Port))
		}
	}
	return strings.Join(left, ", ")
}

func (in *instance) awaitNothing(t *testing.T) {
	t.Helper()
	eventually(t, "no process and no port is left", func() (string, bool) {
		left := in.left()
		return left, left == ""
	})
}

// kubectl runs kubectl with a kubeconfig and a namespace; bind returns a function that must succeed.
type kubectl struct {
	in         *instance
	kubeconfig string
	namespace  string
}

type bound func(arguments ...string) string

func (k kubectl) bind(t *testing.T) bound {
	return func(arguments ...string) string {
		t.Helper()
		out, err := k.run(nil, arguments...)
		if err != nil {
			t.Fatalf("kubectl %s: %v: %s", strings.Join(arguments, " "), err, out)
		}
		return out
	}
}

func (k kubectl) run(input []byte, arguments ...string) (string, error) {
	arguments = append([]string{"--kubeconfig=" + k.kubeconfig, "--request-timeout=90s"}, arguments...)
	if k.namespace != "" {
		arguments = append([]string{"--namespace=" + k.namespace}, arguments...)
	}
	cmd := exec.Command(k.in.Kubectl, arguments...)
	cmd.Stdin = bytes.NewReader(input)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return out.String() + stderr.String(), err
	}
	return strings.TrimSpace(out.String()), nil
}

func (b bound) apply(t *testing.T, manifest string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifest.json")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	b("apply", "-f", path)
}

func (in *instance) kubectl(t *testing.T, arguments ...string) string {
	t.Helper()
	return kubectl{in, in.Kubeconfig, ""}.bind(t)(arguments...)
}

func (in *instance) tryKubectl(arguments ...string) (string, error) {
	return kubectl{in, in.Kubeconfig, ""}.run(nil, arguments...)
}

func (in *instance) namespace(t *testing.T, name string) bound {
	t.Helper()
	in.kubectl(t, "create", "namespace", name)
	return kubectl{in, in.Kubeconfig, name}.bind(t)
}

type auditReport struct {
	Mark   int64
	Counts []struct {
		User, Verb, Resource string
		Code, Count          int
	}
}

func audit(t *testing.T, arguments ...string) (report auditReport) {
	t.Helper()
	out, err := command(append([]string{"audit", "-o", "json", "--dir", shared.Dir}, arguments...)...).Output()
	if err == nil {
		err = json.Unmarshal(out, &report)
	}
	if err != nil {
		t.Fatalf("audit: %v: %s", err, out)
	}
	return report
}

func equal(t *testing.T, want, got string) {
	t.Helper()
	if want != got {
		t.Fatalf("want %q, got %q", want, got)
	}
}

// eventually waits for a condition, and reports what was seen last when the condition never held.
func eventually(t *testing.T, what string, condition func() (seen string, ok bool)) {
	t.Helper()
	for deadline := time.Now().Add(timeout); ; time.Sleep(50 * time.Millisecond) {
		seen, ok := condition()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not in %s: %s; last seen: %s", timeout, what, seen)
		}
	}
}
