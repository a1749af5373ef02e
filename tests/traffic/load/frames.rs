//! Small packets past the sender's IP stack: what they leave by, and that all of them are counted.

use linerate::machine::sys::packet::PacketSocket;
use linerate::machine::sys::xsk::XdpSender;

use super::*;

/// 64-byte frames with FCS at 5000 a second: 18 bytes of payload each.
fn small(direction: Direction, streams: u32, sender: Sender) -> LoadSpec {
    LoadSpec {
        sender,
        datagram: 18,
        ..LoadSpec::udp(direction, streams, 1.0, Some(BitRate(5000.0 * 18.0 * 8.0)))
    }
}

/// Measures, and holds what came of it against the router's own counters.
fn counted(context: &Context, spec: &LoadSpec) -> Measurement {
    let measured = bench::measure(context, spec, &go_on()).unwrap();
    let flow = &measured.flows[0];
    let direction = spec.direction;
    let (received, lost) = (flow.received.unwrap(), flow.lost.unwrap());
    // A busy machine sends fewer than were asked for.
    assert!(received > 100 && lost <= received, "{direction}: {measured:?}");
    assert!((59.0..62.0).contains(&measured.packet_bytes), "{}", measured.packet_bytes);
    // Translated on the way like any other packet: the receiver's socket took them.
    assert_eq!(flow.bytes, received * 18);
    let came_in = if direction == Direction::Up { ROUTER_LAN } else { ROUTER_WAN };
    let device = measured.devices.iter().find(|d| d.device == came_in).unwrap();
    // Beside the data some forty packets of each stream talk: greetings, ends, neighbours.
    let talk = 60 * u64::from(spec.streams);
    let seen = device.rx_packets;
    assert!((received..=received + lost + talk).contains(&seen), "{seen} seen, {measured:?}");
    assert!(!codes(&measured).contains(&RefusalCode::CountersDisagree), "{measured:?}");
    let by = flow.sent_by.clone().unwrap();
    assert!(measured.notes.iter().any(|note| note.ends_with(&by)), "{:?}", measured.notes);
    measured
}

/// Whether this kernel has AF_XDP: only then may anything be said of it.
fn has_xdp(netns: &NetnsThread) -> bool {
    let tried = netns.run(|| XdpSender::open(u32::MAX, 0, &[0; 64], 42).map(drop)).unwrap();
    tried.unwrap_err().raw_os_error() != Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}

#[test]
#[ignore = "slow: make test runs it"]
fn ready_made_frames_are_forwarded_counted_and_as_large_as_asked() {
    let _alone = alone();
    let lab = lab!();
    let xdp = has_xdp(&lab.lan);
    for direction in [Direction::Up, Direction::Down] {
        for (sender, streams) in [(Sender::Packet, 2), (Sender::Xdp, 1), (Sender::Frames, 1)] {
            let measured = counted(&context(&lab), &small(direction, streams, sender));
            let by = measured.flows[0].sent_by.as_deref().unwrap();
            let expected = if sender == Sender::Packet || !xdp { "AF_PACKET" } else { "AF_XDP" };
            assert!(by.starts_with(expected), "{sender:?}: {by}");
        }
    }
    let tcp = LoadSpec { sender: Sender::Frames, ..LoadSpec::tcp(Direction::Up, 1, 1.0, 0.0) };
    assert_eq!(tcp.check().unwrap_err().code(), ExitCode::Usage);
    nobody_is_left();
    if !xdp {
        skip!("this kernel has no AF_XDP (CONFIG_XDP_SOCKETS): only the packet sockets were seen");
    }
}

#[test]
#[ignore = "slow: make test runs it"]
fn where_af_xdp_can_not_be_had_packet_sockets_send_and_the_reason_is_told() {
    let _alone = alone();
    let lab = lab!();
    if !has_xdp(&lab.lan) {
        skip!("this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)");
    }
    let by = |measured: &Measurement| measured.flows[0].sent_by.clone().unwrap();
    // A veth has one queue.
    let two = by(&counted(&context(&lab), &small(Direction::Up, 2, Sender::Xdp)));
    assert!(two.starts_with("AF_PACKET") && two.contains("a transmit queue of its own"), "{two}");
    // Somebody else has it.
    let taken = lab.lan.run(|| {
        let any = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        let name = linerate::measure::lab::ENDPOINT;
        let ifindex = rustix::net::netdevice::name_to_index(&any, name).unwrap();
        XdpSender::open(ifindex, 0, &[0; 64], 42).unwrap()
    });
    let busy = by(&counted(&context(&lab), &small(Direction::Up, 1, Sender::Xdp)));
    assert!(busy.starts_with("AF_PACKET") && busy.contains("busy"), "{busy}");
    drop(taken);
    let free = by(&counted(&context(&lab), &small(Direction::Up, 1, Sender::Xdp)));
    assert!(free.starts_with("AF_XDP"), "{free}");
    // More than a chunk of the shared memory.
    let large = LoadSpec { datagram: 4000, ..small(Direction::Up, 1, Sender::Xdp) };
    let large = LoadSpec { rate: Some(BitRate(1e6)), ..large };
    let lab = Lab::build(&LabSpec { mtu: 9000, ..LabSpec::default() }).unwrap();
    let measured = bench::measure(&Context::of_lab(&lab, 9000, None), &large, &go_on()).unwrap();
    assert!(by(&measured).starts_with("AF_PACKET"), "{measured:?}");
    nobody_is_left();
}

/// Frames with datagrams of a load that come to the WAN host while a load runs.
fn on_the_wire(lab: &Lab, spec: &LoadSpec) -> (Measurement, Vec<Vec<u8>>) {
    let seen = lab.wan.run(PacketSocket::open).unwrap().unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&seen, 16 << 20).unwrap();
    let measured = bench::measure(&context(lab), spec, &go_on()).unwrap();
    let (mut buffer, mut frames) = ([0; 2048], Vec::new());
    while let Some((_, length)) = seen.next_into(&mut buffer).unwrap() {
        // The message's mark and its kind, data.
        if buffer[23] == 17 && buffer[42..50] == *b"lnrt\0\0\0\x02" {
            frames.push(buffer[..length].to_vec());
        }
    }
    (measured, frames)
}

/// RFC 1071: 0 for words that hold their own checksum.
fn sum(parts: &[&[u8]]) -> u16 {
    let mut bytes = parts.concat();
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    let words = bytes.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

#[test]
#[ignore = "slow: make test runs it"]
fn each_datagram_is_one_packet_of_the_size_that_was_asked_for() {
    let _alone = alone();
    before_others();
    let lab = lab!();
    let xdp = has_xdp(&lab.lan);
    for (sender, size) in [
        (Sender::Socket, 200),
        (Sender::Socket, 1472),
        (Sender::Packet, 18),
        (Sender::Packet, 1471),
        (Sender::Xdp, 19),
        (Sender::Xdp, 1471),
    ] {
        let rate = Some(BitRate(1000.0 * size as f64 * 8.0));
        let spec = LoadSpec { datagram: size, rate, ..small(Direction::Up, 1, sender) };
        let (measured, frames) = on_the_wire(&lab, &spec);
        let flow = &measured.flows[0];
        let sent = flow.received.unwrap() + flow.lost.unwrap();
        // What is seen are frames of this sender, and of no other that stood in for it.
        let by = flow.sent_by.as_deref().unwrap_or("sockets");
        let expected = match sender {
            Sender::Xdp if xdp => "AF_XDP",
            Sender::Xdp | Sender::Packet => "AF_PACKET",
            _ => "sockets",
        };
        assert!(by.starts_with(expected), "{sender:?}: {by}");
        assert_eq!(frames.len() as u64, sent, "{sender:?} of {size}: {measured:?}");
        for (number, frame) in frames.iter().enumerate() {
            let (ip, udp) = frame[14..].split_at(20);
            assert_eq!((frame.len(), ip[0]), (size + 42, 0x45), "{sender:?}");
            assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), size + 28);
            assert_eq!(ip[6..8], [0x40, 0], "one piece that nobody may cut");
            assert_eq!(sum(&[ip]), 0, "{sender:?}");
            if sender != Sender::Socket {
                // Of a socket's datagrams a veth carries the sum's place only.
                let pseudo = [&ip[12..20], &[0, 17], &udp[4..6]].concat();
                assert_eq!(sum(&[&pseudo, udp]), 0, "{sender:?} of {size}, frame {number}");
                assert_eq!(ip[4..6], (number as u16).to_be_bytes(), "{sender:?}");
            }
        }
    }
    if !xdp {
        skip!("this kernel has no AF_XDP (CONFIG_XDP_SOCKETS): only the packet sockets were seen");
    }
}

#[test]
#[ignore = "slow: make test runs it"]
fn what_does_not_fit_the_way_is_refused_with_the_size_that_does() {
    let _alone = alone();
    before_others();
    let lab = lab!();
    let spec = |sender, datagram| LoadSpec { datagram, ..small(Direction::Up, 1, sender) };
    for sender in [Sender::Socket, Sender::Packet] {
        let refused = bench::measure(&context(&lab), &spec(sender, 1473), &go_on()).unwrap_err();
        assert_eq!(refused.code(), ExitCode::Usage, "{refused}");
        assert!(refused.to_string().contains("1501 bytes, and the way takes 1500"), "{refused}");
        assert_eq!(refused.remedy(), Some("--datagram 1472 at most"));
    }
    // The router tells of a narrower way behind it, and the kernel keeps that.
    if !command(&lab.router, "ip link set wan0 mtu 1400") {
        skip!("no ip here to make a way narrow with");
    }
    let run = bench::measure(&context(&lab), &spec(Sender::Socket, 1472), &go_on()).unwrap();
    assert!(codes(&run).contains(&RefusalCode::NoTraffic), "{:?}", run.refusals);
    let told = run.refusals.iter().any(|r| r.why.contains("the way takes 1400 in one piece"));
    assert!(told, "{:?}", run.refusals);
    let refused = bench::measure(&context(&lab), &spec(Sender::Socket, 1472), &go_on());
    assert_eq!(refused.unwrap_err().remedy(), Some("--datagram 1372 at most"));
    let run = bench::measure(&context(&lab), &spec(Sender::Socket, 1372), &go_on()).unwrap();
    assert_eq!(codes_of_a_busy_machine(&run), [], "{:?}", run.refusals);
}
