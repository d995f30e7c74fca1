package deploy

import "slices"

// What our manifests use of Kubernetes' objects; another field is an error, as it
// would be misspelled or should be looked at here.

type object struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct {
		Name, Namespace     string
		Labels, Annotations map[string]string
	}
}

type selector struct {
	MatchLabels      map[string]string `yaml:"matchLabels"`
	MatchExpressions []struct {
		Key, Operator string
		Values        []string
	} `yaml:"matchExpressions"`
}

type configMap struct {
	object `yaml:",inline"`
	Data   map[string]string
}

type role struct {
	object `yaml:",inline"`
	Rules  []struct {
		APIGroups []string `yaml:"apiGroups"`
		Resources []string
		Verbs     []string
	}
}

type subject struct{ Kind, Name, Namespace string }

type roleBinding struct {
	object  `yaml:",inline"`
	RoleRef struct {
		APIGroup   string `yaml:"apiGroup"`
		Kind, Name string
	} `yaml:"roleRef"`
	Subjects []subject
}

type service struct {
	object `yaml:",inline"`
	Spec   struct {
		Type            string
		ClusterIP       string `yaml:"clusterIP"`
		PublishNotReady bool   `yaml:"publishNotReadyAddresses"`
		Selector        map[string]string
		Ports           []struct {
			Name       string
			Port       int
			TargetPort string `yaml:"targetPort"`
		}
	}
}

type budget struct {
	object `yaml:",inline"`
	Spec   struct {
		MaxUnavailable int `yaml:"maxUnavailable"`
		Selector       selector
	}
}

type networkPolicy struct {
	object `yaml:",inline"`
	Spec   struct {
		PodSelector selector `yaml:"podSelector"`
		PolicyTypes []string `yaml:"policyTypes"`
		Ingress     []struct {
			From []struct {
				PodSelector selector `yaml:"podSelector"`
			}
			Ports []struct{ Port string }
		}
		Egress []struct {
			To []struct {
				PodSelector selector `yaml:"podSelector"`
			}
			Ports []struct{ Port, Protocol string }
		}
	}
}

// selects reports whether the policy is about a direction of pods with the labels.
func (p *networkPolicy) selects(direction string, labels map[string]string) bool {
	if !slices.Equal(p.Spec.PolicyTypes, []string{direction}) {
		return false
	}
	for key, value := range p.Spec.PodSelector.MatchLabels { // order-free: a conjunction
		if labels[key] != value {
			return false
		}
	}
	for _, e := range p.Spec.PodSelector.MatchExpressions {
		if e.Operator != "In" || !slices.Contains(e.Values, labels[e.Key]) {
			return false
		}
	}
	return true
}

type workload struct {
	object `yaml:",inline"`
	Spec   struct {
		ServiceName   string `yaml:"serviceName"`
		Replicas      int
		PodManagement string `yaml:"podManagementPolicy"`
		MinReady      int    `yaml:"minReadySeconds"`
		Strategy      struct {
			RollingUpdate struct {
				MaxSurge       int `yaml:"maxSurge"`
				MaxUnavailable int `yaml:"maxUnavailable"`
			} `yaml:"rollingUpdate"`
		}
		Selector selector
		Template struct {
			Metadata struct{ Labels, Annotations map[string]string }
			Spec     podSpec
		}
	}
}

// placement holds the parts of the Helm chart that no process notices.
type placement struct {
	ImagePullSecrets  []any `yaml:"imagePullSecrets"`
	Affinity          map[string]any
	NodeSelector      map[string]string `yaml:"nodeSelector"`
	Tolerations       []any
	PriorityClassName string `yaml:"priorityClassName"`
}

type podSpec struct {
	placement          `yaml:",inline"`
	ServiceAccountName string `yaml:"serviceAccountName"`
	EnableServiceLinks *bool  `yaml:"enableServiceLinks"`
	Grace              int    `yaml:"terminationGracePeriodSeconds"`
	SecurityContext    struct {
		RunAsNonRoot bool                  `yaml:"runAsNonRoot"`
		RunAsUser    int                   `yaml:"runAsUser"`
		RunAsGroup   int                   `yaml:"runAsGroup"`
		FSGroup      int                   `yaml:"fsGroup"`
		Seccomp      struct{ Type string } `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	Spread []struct {
		TopologyKey       string   `yaml:"topologyKey"`
		MaxSkew           int      `yaml:"maxSkew"`
		WhenUnsatisfiable string   `yaml:"whenUnsatisfiable"`
		LabelSelector     selector `yaml:"labelSelector"`
	} `yaml:"topologySpreadConstraints"`
	Containers []container
	Volumes    []volume
}

type volume struct {
	Name      string
	ConfigMap struct{ Name string } `yaml:"configMap"`
	Secret    struct {
		SecretName  string `yaml:"secretName"`
		DefaultMode int    `yaml:"defaultMode"`
	}
	EmptyDir *struct {
		SizeLimit string `yaml:"sizeLimit"`
	} `yaml:"emptyDir"`
}

type probe struct {
	HTTP           struct{ Path, Port string } `yaml:"httpGet"`
	PeriodSeconds  int                         `yaml:"periodSeconds"`
	TimeoutSeconds int                         `yaml:"timeoutSeconds"`
}

type container struct {
	Name            string
	Image           string
	ImagePullPolicy string   `yaml:"imagePullPolicy"`
	Command         []string // of the image; here its binary runs
	Args            []string
	Env             []struct {
		Name, Value string
		ValueFrom   struct {
			FieldRef struct {
				FieldPath string `yaml:"fieldPath"`
			} `yaml:"fieldRef"`
		} `yaml:"valueFrom"`
	}
	Ports []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	Liveness        probe `yaml:"livenessProbe"`
	Readiness       probe `yaml:"readinessProbe"`
	SecurityContext struct {
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRoot             bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities             struct{ Drop []string }
	} `yaml:"securityContext"`
	Resources struct {
		Requests, Limits struct{ CPU, Memory string }
	}
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}
