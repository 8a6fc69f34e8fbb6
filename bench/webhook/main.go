// The webhooks of Memcached as the tutorials of Kubebuilder and the Operator SDK write them, on controller-runtime: what
// the host's are measured against. /validate checks the size, /convert converts between the versions.
// Usage: webhook CERTIFICATES PORT
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
)

// Memcached is the kind, as its types are generated in Go.
type Memcached struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec `json:"spec,omitempty"`
}

// Spec is the desired state.
type Spec struct {
	Size          *int32 `json:"size,omitempty"`
	ContainerPort int32  `json:"containerPort,omitempty"`
}

// DeepCopyObject copies an object, as generated code does.
func (in *Memcached) DeepCopyObject() runtime.Object {
	out := &Memcached{TypeMeta: in.TypeMeta, Spec: in.Spec}
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if in.Spec.Size != nil {
		size := *in.Spec.Size
		out.Spec.Size = &size
	}
	return out
}

type validator struct{}

func (validator) ValidateCreate(_ context.Context, new *Memcached) (admission.Warnings, error) {
	return nil, validate(new)
}

func (validator) ValidateUpdate(_ context.Context, _, new *Memcached) (admission.Warnings, error) {
	return nil, validate(new)
}

func (validator) ValidateDelete(context.Context, *Memcached) (admission.Warnings, error) {
	return nil, nil
}

func validate(memcached *Memcached) error {
	if size := memcached.Spec.Size; size != nil && *size%2 == 0 {
		return fmt.Errorf("spec.size: Cluster size must be an odd number")
	}
	return nil
}

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(certificates, port string) error {
	ctrl.SetLogger(zap.New())
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(schema.GroupVersion{Group: "cache.example.com", Version: "v1"}, &Memcached{})
	beta := schema.GroupVersionKind{Group: "cache.example.com", Version: "v1beta1", Kind: "Memcached"}
	scheme.AddKnownTypeWithName(beta, &MemcachedV1beta1{})
	alpha := schema.GroupVersionKind{Group: "cache.example.com", Version: "v1alpha1", Kind: "Memcached"}
	scheme.AddKnownTypeWithName(alpha, &MemcachedV1alpha1{})
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: number, CertDir: certificates})
	server.Register("/validate", admission.WithValidator[*Memcached](scheme, validator{}))
	server.Register("/convert", conversion.NewWebhookHandler(scheme, conversion.NewRegistry()))
	return server.Start(ctrl.SetupSignalHandler())
}
