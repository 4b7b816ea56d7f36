/** A sender whose one connection lives through all kills: what was not answered is sent again by the client. */
final class FailoverSender extends Sender {
    FailoverSender(Load load, String name) {
        super(load, name, Places.AGAIN);
    }

    @Override
    boolean outlivesBroker() {
        return true;
    }
}
