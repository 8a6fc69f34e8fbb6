package main

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
)

// annotation keeps the ports that v1 has no field for.
const annotation = "cache.example.com/ports"

// MemcachedV1beta1 is the kind in v1beta1, as its types are generated in Go.
type MemcachedV1beta1 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              SpecV1beta1 `json:"spec,omitempty"`
}

// SpecV1beta1 is the desired state.
type SpecV1beta1 struct {
	Replicas *int32 `json:"replicas,omitempty"`
	Ports    []Port `json:"ports,omitempty"`
}

// Port is a port of a server's container.
type Port struct {
	Name          string `json:"name"`
	ContainerPort int32  `json:"containerPort"`
}

// DeepCopyObject copies an object, as generated code does.
func (in *MemcachedV1beta1) DeepCopyObject() runtime.Object {
	out := &MemcachedV1beta1{TypeMeta: in.TypeMeta, Spec: in.Spec}
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if in.Spec.Replicas != nil {
		replicas := *in.Spec.Replicas
		out.Spec.Replicas = &replicas
	}
	out.Spec.Ports = append([]Port(nil), in.Spec.Ports...)
	return out
}

// Hub says that other versions are converted to and from v1.
func (*Memcached) Hub() {}

// ConvertTo converts to v1.
func (in *MemcachedV1beta1) ConvertTo(hub conversion.Hub) error {
	out := hub.(*Memcached)
	out.ObjectMeta = in.ObjectMeta
	out.Spec.Size = in.Spec.Replicas
	if len(in.Spec.Ports) == 0 {
		return nil
	}
	out.Spec.ContainerPort = in.Spec.Ports[0].ContainerPort
	if len(in.Spec.Ports) == 1 && in.Spec.Ports[0].Name == "memcached" {
		return nil
	}
	kept, err := json.Marshal(in.Spec.Ports)
	if err != nil {
		return err
	}
	out.Annotations = map[string]string{annotation: string(kept)}
	for key, value := range in.Annotations {
		if key != annotation {
			out.Annotations[key] = value
		}
	}
	return nil
}

// ConvertFrom converts from v1.
func (in *MemcachedV1beta1) ConvertFrom(hub conversion.Hub) error {
	from := hub.(*Memcached)
	in.ObjectMeta = from.ObjectMeta
	in.Spec.Replicas = from.Spec.Size
	if kept := from.Annotations[annotation]; kept != "" {
		if err := json.Unmarshal([]byte(kept), &in.Spec.Ports); err != nil {
			return err
		}
		delete(in.Annotations, annotation)
	}
	if from.Spec.ContainerPort == 0 {
		return nil
	}
	if len(in.Spec.Ports) == 0 {
		in.Spec.Ports = []Port{{Name: "memcached"}}
	}
	in.Spec.Ports[0].ContainerPort = from.Spec.ContainerPort
	return nil
}
