package main

import (
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
)

// MemcachedV1alpha1 is the kind in v1alpha1, which has the fields of v1.
type MemcachedV1alpha1 Memcached

// DeepCopyObject copies an object, as generated code does.
func (in *MemcachedV1alpha1) DeepCopyObject() runtime.Object {
	return (*MemcachedV1alpha1)((*Memcached)(in).DeepCopyObject().(*Memcached))
}

// ConvertTo converts to v1.
func (in *MemcachedV1alpha1) ConvertTo(hub conversion.Hub) error {
	out := hub.(*Memcached)
	out.ObjectMeta, out.Spec = in.ObjectMeta, in.Spec
	return nil
}

// ConvertFrom converts from v1.
func (in *MemcachedV1alpha1) ConvertFrom(hub conversion.Hub) error {
	from := hub.(*Memcached)
	in.ObjectMeta, in.Spec = from.ObjectMeta, from.Spec
	return nil
}
