package main

import (
	_ "embed"
	"strings"

	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

// podGeneral is kustomize/stage/pod/general of the kwok module, which embeds the fast stages only.
//
//go:embed stages/pod-general.yaml
var podGeneral string

// stageSets are the life cycles that Pods can have. kwok does nothing without Stages.
var stageSets = map[string][]string{
	// Ready at once, gone at once.
	"fast": {podfast.DefaultPodReady, podfast.DefaultPodComplete, podfast.DefaultPodDelete},
	// Through init containers and states, each 1 to 6 seconds; deletion honours finalizers.
	"general": {podGeneral},
	// Scheduled and Pending for ever; a test writes their status itself.
	"none": nil,
}

// kwokOptions sets every number: kwok has no defaults once it is given a configuration. The Lease duration is short,
// because a new kwok that finds the Lease of the previous one retries only after a quarter of it.
const kwokOptions = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  podPlayStageParallelism: 8
  nodePlayStageParallelism: 4
  nodeLeaseParallelism: 4
  nodeLeaseDurationSeconds: 8
  podsOnNodeSyncParallelism: 4
  enablePodsOnNodeSyncListPager: false
  enablePodsOnNodeSyncStreamWatch: true
`

// stagesYAML is the configuration of kwok. Nodes are Ready and renew their leases in every set.
func stagesYAML(set string) (string, error) {
	pods, known := stageSets[set]
	if !known {
		return "", &problem{What: "there are no stages " + set, To: "--stages", Next: "choose fast, general or none", Exit: exitUsage}
	}
	documents := append([]string{kwokOptions, nodefast.DefaultNodeInit, heartbeat.DefaultNodeHeartbeatWithLease}, pods...)
	return strings.Join(documents, "\n---\n"), nil
}
