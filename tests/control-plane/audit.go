package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
	"sigs.k8s.io/yaml"
)

// auditPolicy logs every request once, when it is complete, without bodies. The reads of the
// control plane itself are left out, user by user: a ServiceAccount of a test is never left out,
// whatever namespace it lives in.
func auditPolicy() string {
	own := []string{"system:apiserver", userDaemon, userKwok, userManager, userScheduler}
	for _, role := range bootstrappolicy.ControllerRoles() {
		own = append(own, "system:serviceaccount:kube-system:"+strings.TrimPrefix(role.Name, "system:controller:"))
	}
	policy, err := yaml.Marshal(map[string]any{
		"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
		"omitStages": []string{"RequestReceived", "ResponseStarted", "Panic"},
		"rules": []map[string]any{
			{"level": "None", "users": own, "verbs": []string{"get", "list", "watch"}},
			{"level": "Metadata"},
		},
	})
	if err != nil {
		panic(err) // strings and maps of strings always have a YAML form
	}
	return string(policy)
}

// auditCount is the number of requests of one kind. Resource is "pods" or "deployments.apps"; for a
// request that is not about a resource it is the path.
type auditCount struct {
	User        string `json:"user"`
	Verb        string `json:"verb"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	Code        int    `json:"code"`
	Count       int    `json:"count"`
}

type auditReport struct {
	Mark     int64        `json:"mark"` // give it to --since to count what comes next
	Requests int          `json:"requests"`
	Counts   []auditCount `json:"counts"`
}

// auditEvent is the part of an audit.k8s.io/v1 Event that is counted.
type auditEvent struct {
	Verb       string
	RequestURI string
	User       struct{ Username string }
	ObjectRef  *struct{ Resource, APIGroup, Subresource string }
	Response   struct{ Code int } `json:"responseStatus"`
}

// countAudit counts the requests of users whose name begins with prefix, from a byte offset of the
// log on. A line that is still being written is not counted yet.
func countAudit(path, prefix string, since int64) (auditReport, error) {
	report := auditReport{Mark: since, Counts: []auditCount{}}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return report, &problem{What: "there is no audit log", To: path, Next: "start a control plane with `control-plane up`", Exit: exitNotRunning}
	}
	if err != nil {
		return report, asProblem(err, path, "check who owns the file")
	}
	defer file.Close()
	if size, err := file.Seek(0, io.SeekEnd); err != nil || since > size {
		return report, &problem{What: fmt.Sprintf("the log ends before %d", since), To: path, Next: "give --since a mark that an earlier `control-plane audit` of this control plane printed", Exit: exitUsage}
	}
	if _, err := file.Seek(since, io.SeekStart); err != nil {
		return report, err
	}
	counts := map[auditCount]int{}
	for lines := bufio.NewReaderSize(file, 1<<16); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return report, &problem{What: "a line of the audit log is not JSON: " + err.Error(), To: fmt.Sprintf("%s, byte %d", path, report.Mark),
				Next: "give --since a mark that `control-plane audit` printed"}
		}
		report.Mark += int64(len(line))
		if strings.HasPrefix(event.User.Username, prefix) {
			counts[event.key()]++
			report.Requests++
		}
	}
	for key, count := range counts {
		key.Count = count
		report.Counts = append(report.Counts, key)
	}
	slices.SortFunc(report.Counts, func(a, b auditCount) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Resource, b.Resource),
			cmp.Compare(a.Subresource, b.Subresource), cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Code, b.Code))
	})
	return report, nil
}

func (e auditEvent) key() auditCount {
	key := auditCount{User: e.User.Username, Verb: e.Verb, Code: e.Response.Code}
	if e.ObjectRef == nil || e.ObjectRef.Resource == "" {
		key.Resource, _, _ = strings.Cut(e.RequestURI, "?")
		return key
	}
	key.Resource, key.Subresource = e.ObjectRef.Resource, e.ObjectRef.Subresource
	if e.ObjectRef.APIGroup != "" {
		key.Resource += "." + e.ObjectRef.APIGroup
	}
	return key
}

func (r auditReport) table(out io.Writer) {
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "COUNT\tUSER\tVERB\tRESOURCE\tCODE")
	for _, c := range r.Counts {
		resource := c.Resource
		if c.Subresource != "" {
			resource += "/" + c.Subresource
		}
		fmt.Fprintf(columns, "%d\t%s\t%s\t%s\t%d\n", c.Count, c.User, c.Verb, resource, c.Code)
	}
	columns.Flush()
	fmt.Fprintf(out, "%d requests; count what comes next with --since %d\n", r.Requests, r.Mark)
}
